# Joins a port inside a sandbox's network to the proxy's socket, which is descriptor 5. It lives in the sandbox's network
# namespace only: the agent sees neither this process nor the socket, and cannot end it. It ends with its stdin.
import os
import socket
import sys
import threading

PORT, CONNECTIONS_MAX = int(sys.argv[1]), int(sys.argv[2])
slots = threading.BoundedSemaphore(CONNECTIONS_MAX)


def pump(source, target):
    try:
        while data := source.recv(65536):
            target.sendall(data)
    except OSError:
        pass
    for each, how in ((target, socket.SHUT_WR), (source, socket.SHUT_RD)):
        try:
            each.shutdown(how)
        except OSError:
            pass


def join(client):
    with client, socket.socket(socket.AF_UNIX) as proxy:
        try:
            proxy.connect("/proc/self/fd/5")
            back = threading.Thread(target=pump, args=(proxy, client), daemon=True)
            back.start()
            pump(client, proxy)
            back.join()
        except (OSError, RuntimeError):
            pass
    slots.release()


def listen():
    server = socket.socket()
    server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    server.bind(("127.0.0.1", PORT))
    server.listen(CONNECTIONS_MAX)
    os.write(1, b"up\n")
    while True:
        slots.acquire()
        try:
            client, _ = server.accept()
            threading.Thread(target=join, args=(client,), daemon=True).start()
        except (OSError, RuntimeError):
            slots.release()


threading.stack_size(256 * 1024)
threading.Thread(target=listen, daemon=True).start()
while os.read(0, 64):
    pass
os._exit(0)
