/** `1 file`, `2 files`. */
export function counted(number: number, one: string, several = `${one}s`): string {
  return `${number} ${number === 1 ? one : several}`;
}

/** The first `max` texts, and how many more there are: `a, b and 3 more`. */
export function someOf(texts: readonly string[], max: number): string {
  const more = texts.length - max;
  return texts.slice(0, max).join(', ') + (more > 0 ? ` and ${more} more` : '');
}
