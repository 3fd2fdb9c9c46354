/** Names of fields as CEL identifiers (apiserver `pkg/cel/escaping.go`). */

const reserved: ReadonlySet<string> = new Set(
  (
    'true false null in as break const continue else for function if import let loop package namespace return ' +
    'var void while'
  ).split(' '),
);

const escapes: Readonly<Record<string, string>> = {
  __: '__underscores__',
  '.': '__dot__',
  '-': '__dash__',
  '/': '__slash__',
};

/** `namespace` is `__namespace__` in a rule, `a.b-c` is `a__dot__b__dash__c`; `undefined` for a name that cannot be escaped. */
export function escapeName(name: string): string | undefined {
  if (!/^[A-Za-z_./-][A-Za-z0-9_./-]*$/.test(name)) return undefined;
  if (reserved.has(name)) return `__${name}__`;
  return name.replaceAll(/__|[./-]/g, (part) => escapes[part] ?? part);
}
