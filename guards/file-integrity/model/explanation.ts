/** Which update by the package manager a finding comes from. */
export interface Explanation {
  readonly package: string;
  /** The version at the time of the baseline; undefined if it was not installed. */
  readonly from: string | undefined;
  /** Undefined if it is removed. */
  readonly to: string | undefined;
}

/** The effects of an update on the files of a node. */
export interface PackageUpdate {
  /** {@link explanationText} */
  readonly update: string;
  /** How many files differ from the baseline because of this update, or did until they were accepted. */
  readonly files: number;
  /** When the latest of these files was seen, or when they were accepted, ms since 1970. */
  readonly atMs: number;
  /** Whether the files were accepted into the baseline. */
  readonly accepted: boolean;
}

/** @example `openssl 3.0.15-1 -> 3.0.16-1`, `openssl 3.0.16-1 installed` */
export function explanationText({ package: name, from, to }: Explanation): string {
  if (from === undefined) return `${name} ${to} installed`;
  if (to === undefined) return `${name} ${from} removed`;
  return from === to ? `${name} ${to} reinstalled` : `${name} ${from} -> ${to}`;
}
