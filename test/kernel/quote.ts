/** `text` as one word of the POSIX shell, whatever characters are in it (except NUL). */
export function quote(text: string): string {
  return `'${text.replaceAll("'", `'\\''`)}'`;
}
