/** The package update that caused a finding. */
export interface Explanation {
  readonly package: string;
  /** The version in the baseline; undefined if the package was not installed. */
  readonly from: string | undefined;
  /** The new version; undefined if the package was removed. */
  readonly to: string | undefined;
}

/** What a package update changed on a node. */
export interface PackageUpdate {
  /** The update as text, see {@link explanationText}. */
  readonly update: string;
  /** Number of files that differ from the baseline because of this update; for an accepted update, that differed. */
  readonly files: number;
  /** When the latest of these files was seen or, for an accepted update, when it was accepted; in ms since 1970. */
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
