"""llama.cpp's HTTP server on 127.0.0.1, from the xllamacpp wheel.

usage: llamacpp_server.py MODEL.gguf NAME PORT SLOTS CONTEXT_TOKENS THREADS

Prints `listening URL` once it answers. Ends when its standard input is closed, so it never outlives whoever started it.
"""

import os
import sys

import xllamacpp

model, name, port, slots, context_tokens, threads = sys.argv[1:7]
parameters = xllamacpp.CommonParams()
parameters.model.path = model
parameters.model_alias = {name}
parameters.hostnames = ["127.0.0.1"]
parameters.port = int(port)
parameters.n_parallel = int(slots)
parameters.n_ctx = int(slots) * int(context_tokens)
parameters.cpuparams.n_threads = int(threads)
parameters.cpuparams_batch.n_threads = int(threads)
parameters.endpoint_metrics = True
parameters.endpoint_slots = True
parameters.use_jinja = True
server = xllamacpp.Server(parameters)
print(f"listening {server.listening_address}", flush=True)
while os.read(0, 4096):
    pass
# The server's own threads would keep the interpreter from ending.
os._exit(0)
