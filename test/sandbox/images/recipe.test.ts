import { describe, expect, test } from "bun:test";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { sourceLines } from "../../../src/sandbox/images/build-debian.ts";
import { toSettings } from "../../../src/sandbox/images/oci-config.ts";
import { parseRecipe, recipeKey } from "../../../src/sandbox/images/recipe.ts";
import { findRecipe, readRecipe, recipeNames } from "../../../src/sandbox/images/recipes.ts";
import { problemOfName } from "../../../src/sandbox/images/store-folders.ts";
import { aFolder } from "../../support/images.ts";

const parse = (text: string, lock: string | null = null) => parseRecipe("r", text, lock, "r.toml");

describe("parseRecipe", () => {
  test("says where it is wrong, what is wrong and what is accepted", () => {
    const wrongs: [string, RegExp][] = [
      ["base = ", /^r\.toml: is not TOML: /],
      ['base = "ubuntu"', /^r\.toml: base: accepted are `host` and `debian:SUITE`/],
      ["pip = []", /^r\.toml: base: /],
      ['base = "host"\npips = ["x"]', /pips: unknown; known are description, base, apt, pip, run, env, uid/],
      ['base = "host"', /pip: is empty/],
      ['base = "host"\napt = ["git"]\npip = ["x==1"]', /apt: the base `host` cannot take Debian packages/],
      ['base = "host"\nrun = ["true"]\npip = ["x==1"]', /run: the base `host` takes pip packages only/],
      ['base = "host"\npip = ["x"]', /pip: x names no version; write x==VERSION, or lay a pip\.lock/],
      ['base = "host"\npip = ["--index-url=http://x"]', /pip\.0: is no name of a Python package/],
      ['base = "debian:bookworm"\napt = ["--option"]', /apt\.0: is no name of a Debian package/],
      ['base = "debian:bookworm"\npip = ["x==1"]', /apt: packages of pip need python3-pip/],
      ['base = "host"\npip = ["x==1"]\nuid = 7', /uid: accepted are 0 and 1000/],
      ['base = "host"\npip = ["x==1"]\n[env]\n"A-B" = "1"', /env\.A-B: /],
    ];
    for (const [text, why] of wrongs) expect(() => parse(text)).toThrow(why);
    expect(() => parse(`base = "host" #${"x".repeat(70_000)}`)).toThrow("is longer than");
  });

  test("reads every recipe that the program brings", () => {
    expect(recipeNames(null)).toEqual(["debian", "python"]);
    for (const name of recipeNames(null)) expect(findRecipe(name, null).name).toBe(name);
    const { pip, pipLock } = findRecipe("python", null);
    for (const one of pip) expect(pipLock).toContain(`\n${one}==`);
    expect(pipLock?.match(/==/g)?.length).toBeLessThanOrEqual(
      pipLock?.match(/==[^\n]*\\\n {4}--hash=sha256:/g)?.length ?? 0,
    );
  });
});

describe("recipeKey", () => {
  test("changes with recipe, lock and base, and with nothing else", () => {
    const text = 'base = "host"\npip = ["x==1"]\n[env]\nA = "1"\nB = "2"\n';
    const key = recipeKey(parse(text), "host-1");
    expect(recipeKey(parse(`# a comment\ndescription = "new"\n${text}`), "host-1")).toBe(key);
    expect(recipeKey(parse(text.replace('A = "1"\nB = "2"', 'B = "2"\nA = "1"')), "host-1")).toBe(key);
    const others = [
      recipeKey(parse(text), "host-2"),
      recipeKey(parse(text, "x==1 --hash=sha256:0"), "host-1"),
      recipeKey(parse(text.replace("x==1", "x==2")), "host-1"),
      recipeKey(parse(text.replace('A = "1"', 'A = "3"')), "host-1"),
    ];
    expect(new Set([key, ...others]).size).toBe(5);
  });
});

describe("findRecipe", () => {
  test("takes the user's own before those of the program, with the lock beside it", async () => {
    await using folder = aFolder();
    for (const name of ["python", "mine"]) {
      mkdirSync(join(folder.path, name));
      writeFileSync(join(folder.path, name, "recipe.toml"), `base = "host"\npip = ["${name}"]`);
      writeFileSync(join(folder.path, name, "pip.lock"), `${name}==1\n`);
    }
    expect(recipeNames(folder.path)).toEqual(["debian", "mine", "python"]);
    expect(findRecipe("python", folder.path).pipLock).toBe("python==1\n");
    expect(readRecipe(join(folder.path, "mine")).pip).toEqual(["mine"]);
    expect(readRecipe(join(folder.path, "mine", "recipe.toml")).name).toBe("mine");
    for (const name of ["nope", "../mine", "mine/../python", ""]) {
      expect(() => findRecipe(name, folder.path)).toThrow("there are debian, mine, python");
    }
    expect(() => readRecipe(join(folder.path, "nope"))).toThrow("there is no /");
    expect(() => readRecipe(folder.path)).toThrow("there is no recipe.toml in");
    const noFolder = join(folder.path, "nope");
    expect(() => findRecipe("x", noFolder)).toThrow(`--recipes ${noFolder} is no folder`);
  });
});

describe("problemOfName", () => {
  test("takes names as Docker has them, and no paths", () => {
    for (const name of ["python", "a/b/c:1.2-X", "sweb.eval.x86_64.django__django-1:latest"]) {
      expect(problemOfName(name)).toBeNull();
    }
    for (const name of ["", "host", "A", ".x", "a//b", "a/../b", "a/", "/a", "a b", "a\0", "a%b", "a".repeat(201)]) {
      expect(problemOfName(name)).not.toBeNull();
    }
  });
});

describe("sourceLines", () => {
  test("uses the machine's own mirror for any suite, and says what to do without one", () => {
    const own = [{ uri: "http://m/debian", suite: "trixie" }];
    expect(sourceLines("bookworm", own).lines).toEqual([
      "deb http://m/debian bookworm main",
      "deb http://m/debian bookworm-updates main",
      "deb http://m/debian-security bookworm-security main",
    ]);
    expect(sourceLines("sid", own).lines).toEqual(["deb http://m/debian sid main"]);
    expect(() => sourceLines("bookworm", [])).toThrow("/etc/apt/sources.list.d");
  });
});

describe("toSettings", () => {
  test("takes variables, PATH, user and working directory, and leaves out what is none", () => {
    expect(toSettings({ env: ["PATH=/x", "A=1=2", "B=", "=x", "C D=1"], cwd: "/app", user: "0:7" })).toEqual({
      env: { A: "1=2", B: "" },
      path: "/x",
      uid: 0,
      cwd: "/app",
    });
    for (const user of ["app", "1001", "1001:0", "nobody:root"])
      expect(toSettings({ env: [], cwd: "", user }).uid).toBe(1_000);
    for (const cwd of ["", "/", "app", "/a/../b"]) expect(toSettings({ env: [], cwd, user: "" }).cwd).toBeNull();
  });
});
