import { type Command, Option } from "commander";
import { flagName, type OptionKey, SERVER_OPTIONS } from "../config.ts";
import type { Images } from "../sandbox/images/open-images.ts";
import { buildImage, importImage, inspectImage, listImages, removeImage } from "./image.ts";

/** The server's settings that say where its images are and who builds them. */
const IMAGE_OPTIONS = ["data", "images", "images_bytes_max", "recipes", "sandbox_uid", "bwrap"] as const;

type Flags = Record<string, unknown>;
type OpenImages = (flags: Flags) => Promise<Images>;

/** Adds `rolloutd image`; `open` gives the images that the flags name. */
export function addImageCommands(program: Command, open: OpenImages): void {
  const image = program
    .command("image")
    .description("root filesystems of sandboxes: list, build, import, remove; works without a server and beside one");
  add(image.command("ls"))
    .description("list them")
    .action((flags: Flags, command: Command) => run(command, open, (images) => listImages(images, toJson(flags))));
  add(image.command("build <recipe>"))
    .description("build a recipe: its name, or the path of its folder or recipe.toml (docs/images.md)")
    .option("--name <name>", "what to call the image (default: the recipe's name)")
    .option("--rebuild", "build although recipe, lock and base are unchanged", false)
    .action((recipe: string, flags: Flags & { name?: string; rebuild: boolean }, command: Command) =>
      run(command, open, (images) =>
        buildImage(images, recipe, { ...toJson(flags), name: flags.name ?? null, rebuild: flags.rebuild }),
      ),
    );
  add(image.command("import <name> <archive>"))
    .description("import a `docker save` archive or an OCI layout (folder or tar)")
    .option("--rebuild", "import although the archive is unchanged", false)
    .action((name: string, archive: string, flags: Flags & { rebuild: boolean }, command: Command) =>
      run(command, open, (images) =>
        importImage(images, { name, archive }, { ...toJson(flags), rebuild: flags.rebuild }),
      ),
    );
  add(image.command("inspect <name>"))
    .description("what an image is made of and how a sandbox on it is set up")
    .action((name: string, flags: Flags, command: Command) =>
      run(command, open, (images) => inspectImage(images, name, toJson(flags))),
    );
  add(image.command("rm <name>"))
    .description("remove an image that no sandbox uses")
    .action((name: string, _flags: Flags, command: Command) =>
      run(command, open, (images) => removeImage(images, name)),
    );
}

function add(command: Command): Command {
  command.option("--json", "machine-readable", false);
  for (const key of IMAGE_OPTIONS) {
    command.addOption(new Option(`${flagName(key)} <value>`, `as of serve: ${SERVER_OPTIONS[key].description}`));
  }
  return command;
}

async function run(command: Command, open: OpenImages, work: (images: Images) => Promise<void>): Promise<void> {
  const given: Record<string, unknown> = command.opts();
  const flags = Object.fromEntries(IMAGE_OPTIONS.map((key: OptionKey) => [key, given[toCamel(key)]]));
  await work(await open(flags));
}

function toJson(flags: Flags): { json: boolean } {
  return { json: flags.json === true };
}

function toCamel(key: string): string {
  return key.replace(/_([a-z])/g, (_match, letter: string) => letter.toUpperCase());
}
