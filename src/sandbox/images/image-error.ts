/**
 * Why an image could not be built, imported or removed. `input`: the caller asked for what cannot be; `busy`: it is in use
 * or being built; `absent`: there is none of that name; `machine`: a program, folder or right is missing here; `failed`: a
 * program of the build ended badly or ran into a bound.
 */
export type ImageFault = "input" | "busy" | "absent" | "machine" | "failed";

/** What goes wrong with images, in words for whoever asked; the message says what to do where something can be done. */
export class ImageError extends Error {
  override readonly name = "ImageError";
  constructor(
    readonly fault: ImageFault,
    message: string,
    options?: ErrorOptions,
  ) {
    super(message, options);
  }
}

/** Ends a message about what this machine may lack. */
export const SEE_DOCTOR = "`rolloutd doctor` names what this machine lacks";
