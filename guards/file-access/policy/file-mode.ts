/**
 * The permissions of a file to create, in the spellings of users.
 *
 * The digits are octal, in a number as in a string: `444` is r--r--r--. YAML 1.1, which kubectl reads, makes
 * the number 292 of an unquoted 0444, and 420 of 0644; some of those have only octal digits again and would
 * be taken for something else (0644 for 0420). Such numbers are refused where one reading is the mode of a
 * usual file and the other is not.
 */

/** r--------: a file that only root can read by mistake. */
export const defaultModeBits = 0o400;

/** Whether a mode is usual: the owner may read, the group may do no more than the owner, and others no more than the group. */
function isUsual(bits: number): boolean {
  const [owner, group, others] = [(bits >> 6) & 7, (bits >> 3) & 7, bits & 7];
  return (group & ~owner) === 0 && (others & ~group) === 0 && ((owner & 4) !== 0 || owner === 0);
}

const octalDigits = /^[0-7]{1,4}$/;

/** Whether a number is rather what YAML made of an octal number with a leading 0. */
function isMisread(value: number): boolean {
  const digits = String(value);
  return octalDigits.test(digits) && !isUsual(parseInt(digits, 8)) && isUsual(value);
}

/** The numbers of up to three octal digits that were rather meant as another mode: 420 (0644), 256 (0400), ... */
export const misreadModes: readonly number[] = Array.from({ length: 0o1000 }, (_, value) => value).filter(
  isMisread,
);

/**
 * The permission bits of a mode, or what is wrong with it.
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
