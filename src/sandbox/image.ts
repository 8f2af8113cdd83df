/** A root filesystem as stage 1, bwrap and the file channel put it together; immutable while sandboxes live on it. */
export interface SandboxImage {
  readonly name: string;
  /** Changes when the content does; stands in each trajectory. */
  readonly id: string;
  /** For people: where it comes from. */
  readonly source: string;
  /** Folders of the root's overlay, the topmost first; none: the root is an empty folder of the sandbox's own. */
  readonly lower: readonly string[];
  /** Options of bwrap, after the root is bound to `/`. */
  readonly mounts: readonly string[];
  /** Files that each sandbox gets as its own copy. */
  readonly files: readonly { path: string; text: string }[];
  readonly path: string;
  /** Beside PATH, HOME, LANG and TERM, which it may replace. */
  readonly env: Readonly<Record<string, string>>;
  /** Who the agent is inside: 0 or an ordinary user. Outside it is the same unprivileged uid in every case. */
  readonly uid: number;
  /** Giving a file to another user seems to succeed, as installers of packages insist on it; inside there is one user only. */
  readonly pretendsOwners?: boolean;
  /** Where a shell begins when the task does not say; null: `/workspace`. */
  readonly cwd?: string | null;
}

export interface ImageInfo {
  name: string;
  id: string;
  source: string;
  /** Of its own folders on disk; null for what is not ours to count. */
  bytes: number | null;
  /** Sandboxes of this server that live on it. */
  inUse: number;
  lastUsedAtMs: number | null;
}

/** Holds an image where it is: what is leased is neither removed nor evicted, by this process or another. */
export interface ImageLease {
  readonly image: SandboxImage;
  /** Safe to call twice. */
  release(): void;
}

/** Where a sandbox host finds images. */
export interface ImageCatalog {
  list(): readonly ImageInfo[];
  /** Null when there is no image of that name or id. */
  lease(name: string): ImageLease | null;
}

/** Images that are always there, such as `host`. */
export function fixedCatalog(images: readonly SandboxImage[]): ImageCatalog {
  const inUse = new Map(images.map((image) => [image.name, 0]));
  const count = (name: string, change: number) => inUse.set(name, (inUse.get(name) ?? 0) + change);
  return {
    list: () =>
      images.map(({ name, id, source }) => ({
        name,
        id,
        source,
        bytes: null,
        inUse: inUse.get(name) ?? 0,
        lastUsedAtMs: null,
      })),
    lease(wanted) {
      const image = images.find(({ name, id }) => name === wanted || id === wanted);
      if (image === undefined) return null;
      let isHeld = true;
      count(image.name, 1);
      return {
        image,
        release() {
          if (isHeld) count(image.name, -1);
          isHeld = false;
        },
      };
    },
  };
}
