/** Submits jobs for ever, one group a call, and prints each id once it is acknowledged. Its argument is the store's file. */
import { systemClock } from "../../src/clock.ts";
import { createStore } from "../../src/store/client.ts";
import { aGroup } from "../support/jobs.ts";

const store = await createStore({ file: process.argv[2] ?? "", clock: systemClock });
console.log("open");

async function writeForEver(): Promise<never> {
  for (;;) {
    const { groups } = await store.submit([aGroup({ n: 2 })], null);
    for (const id of groups.flatMap((group) => group.jobIds)) process.stdout.write(`${id}\n`);
  }
}

await Promise.all(Array.from({ length: 8 }, writeForEver));
