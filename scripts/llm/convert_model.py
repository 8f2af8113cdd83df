"""Turns a GGUF model into the folder that vLLM loads: float32 safetensors, config and tokenizer.

usage: convert_model.py IN.gguf OUT_FOLDER

transformers 5 refuses to save a model that it loaded from GGUF, so the weights are written here. Repeated, it gives the
same bytes.
"""

import json
import os
import sys

import torch
from safetensors.torch import save_file
from transformers import AutoModelForCausalLM, AutoTokenizer

source, out = sys.argv[1:3]
folder, file = os.path.split(os.path.abspath(source))
tokenizer = AutoTokenizer.from_pretrained(folder, gguf_file=file)
model = AutoModelForCausalLM.from_pretrained(folder, gguf_file=file, dtype=torch.float32)
os.makedirs(out, exist_ok=True)

# Tied output weights are the input embeddings once more: vLLM wants them once.
skipped = {"lm_head.weight"} if model.config.tie_word_embeddings else set()
weights = {name: value.detach().contiguous().clone() for name, value in model.state_dict().items() if name not in skipped}
save_file(weights, os.path.join(out, "model.safetensors"), metadata={"format": "pt"})
# It is written for its owner alone, but a shared cache is read by all.
os.chmod(os.path.join(out, "model.safetensors"), 0o644)

config = model.config.to_dict()
for key in ("quantization_config", "_name_or_path"):
    config.pop(key, None)
config |= {"architectures": [type(model).__name__], "dtype": "float32"}
ends = {key: getattr(tokenizer, key) for key in ("bos_token_id", "eos_token_id", "pad_token_id")}
for name, value in (("config.json", config), ("generation_config.json", ends)):
    with open(os.path.join(out, name), "w") as target:
        json.dump(value, target, indent=2, default=str)
tokenizer.save_pretrained(out)
