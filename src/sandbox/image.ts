/** A root filesystem as bwrap and the file channel put it together; immutable while sandboxes live on it. */
export interface SandboxImage {
  readonly name: string;
  /** Changes when the content does; stands in each trajectory. */
  readonly id: string;
  /** For people: where it comes from. */
  readonly source: string;
  /** Options of bwrap, after the empty root is bound to `/`. */
  readonly mounts: readonly string[];
  /** Files that each sandbox gets as its own copy. */
  readonly files: readonly { path: string; text: string }[];
  readonly path: string;
}
