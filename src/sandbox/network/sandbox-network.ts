import type { Clock } from "../../clock.ts";
import type { NetworkLog, NetworkRule } from "../../network-rule.ts";
import type { Cidr } from "./addresses.ts";
import { type ForwarderOptions, PROXY_PORT, startForwarder } from "./forwarder.ts";
import { startProxy } from "./proxy.ts";

/** What the networks of all sandboxes of one host have in common. */
export interface NetworkHost {
  /** Networks that are not public and may be reached all the same (`--network-private`). */
  admitted: readonly Cidr[];
  /** All addresses of a name; rejects when there is none. */
  resolve: (host: string) => Promise<readonly string[]>;
}

/** The way out of one sandbox; without it there is none. */
export interface SandboxNetwork extends AsyncDisposable {
  readonly log: NetworkLog;
}

const PROXY = `http://127.0.0.1:${PROXY_PORT}`;
const OWN = "localhost,127.0.0.1,::1";
/** pip, curl, git, apt, npm and most libraries look at these; some at the small ones, some at the large. */
export const NETWORK_ENV: Readonly<Record<string, string>> = {
  http_proxy: PROXY,
  https_proxy: PROXY,
  HTTP_PROXY: PROXY,
  HTTPS_PROXY: PROXY,
  no_proxy: OWN,
  NO_PROXY: OWN,
};

/** Gives a started sandbox its network. On failure or abort nothing is left. */
export async function openNetwork(
  host: NetworkHost,
  { rules, clock, ...place }: { rules: readonly NetworkRule[]; clock: Clock } & Omit<ForwarderOptions, "socketFd">,
  signal: AbortSignal,
): Promise<SandboxNetwork> {
  await using owned = new AsyncDisposableStack();
  const proxy = owned.use(await startProxy({ ...host, rules, clock }));
  owned.use(await startForwarder({ ...place, clock, socketFd: proxy.socketFd }, signal));
  const rest = owned.move();
  return {
    log: proxy.log,
    [Symbol.asyncDispose]: () => rest.disposeAsync(),
  };
}
