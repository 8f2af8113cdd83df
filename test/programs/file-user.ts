import { readdirSync, readFileSync } from "node:fs";
import { TEST_LIMITS, testSandboxHost } from "../support/sandbox-host.ts";

/** Writes and reads sandbox files until Bun has made its helper threads, and prints those that act as another user. */
const FILES = 3_000;

const never = new AbortController().signal;
const host = await testSandboxHost();
const sandbox = await host.open({ image: "host", limits: TEST_LIMITS }, never);
for (let i = 0; i < FILES; i += 1) {
  const path = `/tmp/${i % 50}/file`;
  await sandbox.writeFile({ path, bytes: Buffer.from(`${i}`) }, never);
  await sandbox.readFile(path, 100);
  if (i === FILES / 2) await Bun.file("/proc/self/stat").text(); // the thread pool
}
await host.close();
const own = process.getuid?.() ?? 0;
for (const thread of readdirSync("/proc/self/task")) {
  const status = readFileSync(`/proc/self/task/${thread}/status`, "latin1");
  const uids = (/^Uid:\s+(.*)$/m.exec(status)?.[1] ?? "").split("\t").map(Number);
  if (uids.some((uid) => uid !== own)) console.log(`${/^Name:\s+(.*)$/m.exec(status)?.[1]} ${uids.join(" ")}`);
}
