/**
 * The permissions of a file to create, as users spell them.
 *
 * The digits are octal, both in a number and in a string: `444` is r--r--r--. In YAML 1.1, which kubectl reads, an
 * unquoted 0444 is the number 292, and 0644 is 420. If such a number has only octal digits, it would be misread: 0644
 * as 0420. So a number is refused if its digits, read as octal, are an unusual mode, but the number itself is a usual
 * one.
 */

/** r--------: only root can read a file that was created by mistake. */
export const defaultModeBits = 0o400;

/**
 * Whether a mode is usual: the owner may read, the group has no rights that the owner lacks, and others have none that
 * the group lacks.
 */
function isUsual(bits: number): boolean {
  const [owner, group, others] = [(bits >> 6) & 7, (bits >> 3) & 7, bits & 7];
  return (group & ~owner) === 0 && (others & ~group) === 0 && ((owner & 4) !== 0 || owner === 0);
}

const octalDigits = /^[0-7]{1,4}$/;

/** Whether a number is more likely YAML's value of an octal number with a leading 0. */
function isMisread(value: number): boolean {
  const digits = String(value);
  return octalDigits.test(digits) && !isUsual(parseInt(digits, 8)) && isUsual(value);
}

/** The numbers of up to three octal digits that more likely mean another mode: 420 (0644), 256 (0400), ... */
export const misreadModes: readonly number[] = Array.from({ length: 0o1000 }, (_, value) => value).filter(
  isMisread,
);

/**
 * The permission bits of a mode; in `why` the reason if it is invalid.
 *
 * @param mode - As in the policy: a number whose decimal digits are octal, or a string (`444`, `0444`, `0o444`).
 */
export function parseFileMode(mode: number | string): { readonly bits: number } | { readonly why: string } {
  if (typeof mode === 'string') {
    const digits = /^(?:0o?)?([0-7]{1,4})$/.exec(mode)?.[1];
    return digits === undefined
      ? { why: `${JSON.stringify(mode)} is not one to four octal digits` }
      : { bits: parseInt(digits, 8) };
  }
  const digits = String(mode);
  if (octalDigits.test(digits) && !isMisread(mode)) return { bits: parseInt(digits, 8) };
  const octal = Number.isInteger(mode) && mode >= 0 && mode <= 0o7777 ? `0${mode.toString(8)}` : undefined;
  return {
    why:
      octal === undefined
        ? `${digits} is not one to four octal digits`
        : `the digits of ${digits} must be octal; ${digits} is what YAML makes of an unquoted ${octal}`,
  };
}
