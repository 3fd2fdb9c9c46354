/**
 * Writes `lib/apiserver/protobuf/fields.json`: the numbers and types that the fields of the built-in kinds
 * have in protobuf. They are facts of two files in each package of Kubernetes: `generated.proto` has numbers
 * and types, the Go types beside it have the names in JSON, which fields are pointers, and which are omitted
 * when they are empty.
 *
 *     node scripts/proto-fields.ts VERSION DIRECTORY...
 *
 * VERSION is written into the file; each DIRECTORY is searched for the packages `k8s.io/api`,
 * `k8s.io/apimachinery` and `k8s.io/apiextensions-apiserver`. Debian has them all (0.36.4 in unstable, as
 * this is written):
 *
 *     apt-get download golang-k8s-api-dev golang-k8s-apimachinery-dev golang-k8s-apiextensions-apiserver-dev
 *     for package in golang-k8s-*.deb; do dpkg-deb -x "$package" unpacked; done
 *     node scripts/proto-fields.ts 0.36.4 unpacked
 *
 * Which kinds: those of `lib/apiserver/builtin/kinds.json`, which must exist. The file is committed, so this
 * is run for a new Kubernetes only. A field is one text, explained in `lib/apiserver/protobuf/fields.ts`.
 */
import { globSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';

import { forms } from '../lib/apiserver/protobuf/forms.ts';

const top = dirname(import.meta.dirname);
const target = join(top, 'lib/apiserver/protobuf/fields.json');

/** A field as `generated.proto` has it. */
interface ProtoField {
  readonly name: string;
  readonly number: number;
  /** `string`, or the full name of a message. */
  readonly type: string;
  readonly form: 'one' | 'list' | 'map';
}

/** The same field as the struct in Go has it. */
interface GoField {
  readonly jsonName: string;
  readonly isInline: boolean;
  readonly isPointer: boolean;
  readonly omitsEmpty: boolean;
}

const scalars: ReadonlySet<string> = new Set(['string', 'bool', 'int32', 'int64', 'double', 'bytes']);

/** A package: one folder. */
class Package {
  readonly messages = new Map<string, readonly ProtoField[]>();
  /** Their fields by number, in the order of the struct, which is that of the JSON. */
  readonly structs = new Map<string, ReadonlyMap<number, GoField>>();
  /** Types that write their own JSON. */
  readonly marshalers = new Set<string>();

  constructor(protoFile: string, name: string) {
    const proto = withoutComments(readFileSync(protoFile, 'utf8'));
    for (const [, message = '', body = ''] of proto.matchAll(/^message (\w+) \{\n([\s\S]*?)^\}/gm)) {
      this.messages.set(message, protoFieldsOf(body, name));
    }
    for (const file of globSync('*.go', { cwd: dirname(protoFile) })) {
      if (file.endsWith('_test.go') || file.startsWith('generated') || file.startsWith('zz_')) continue;
      const go = withoutComments(readFileSync(join(dirname(protoFile), file), 'utf8'));
      for (const [, type = '', body = ''] of go.matchAll(/^type (\w+) struct \{\n([\s\S]*?)^\}/gm)) {
        this.structs.set(type, goFieldsOf(body, `${name}.${type}`));
      }
      for (const [, type = ''] of go.matchAll(/^func \(\w+ \*?(\w+)\) MarshalJSON\(/gm)) {
        this.marshalers.add(type);
      }
    }
  }
}

function withoutComments(text: string): string {
  return text.replaceAll(/\/\*[\s\S]*?\*\//g, '').replaceAll(/^\s*\/\/.*\n/gm, '');
}

function protoFieldsOf(body: string, packageName: string): ProtoField[] {
  const fields: ProtoField[] = [];
  for (const line of body.split('\n').filter((one) => one.trim() !== '')) {
    const match = /^ {2}(?:(optional|repeated) (\S+)|map<string, (\S+)>) (\w+) = (\d+);$/.exec(line);
    if (match === null) throw new Error(`${packageName}: what is the field "${line}"?`);
    const [, label, type, valueType, name = '', number] = match;
    const form = valueType !== undefined ? 'map' : label === 'repeated' ? 'list' : 'one';
    const fullType = fullName(valueType ?? type ?? '', packageName);
    fields.push({ name, number: Number(number), type: fullType, form });
  }
  return fields;
}

function fullName(type: string, packageName: string): string {
  if (scalars.has(type)) return type;
  return type.startsWith('.') ? type.slice(1) : `${packageName}.${type}`;
}

function goFieldsOf(body: string, what: string): Map<number, GoField> {
  const fields = new Map<number, GoField>();
  for (const line of body.split('\n')) {
    const match = /^\t(?:\w+\s+)?([^\s`]+)\s+`([^`]*)`/.exec(line);
    const json = /\bjson:"([^"]*)"/.exec(match?.[2] ?? '')?.[1];
    const number = /\bprotobuf:"\w+,(\d+),/.exec(match?.[2] ?? '')?.[1];
    if (json === undefined || number === undefined) continue;
    const type = match?.[1] ?? '';
    const [jsonName = '', ...options] = json.split(',');
    if (options.includes('string')) throw new Error(`${what}.${jsonName} is a number in a text`);
    // Among the types with omitzero, only times are known to be omitted in their zero form.
    if (options.includes('omitzero') && type !== 'Time' && type !== 'metav1.Time') {
      throw new Error(`${what}.${jsonName} has omitzero`);
    }
    fields.set(Number(number), {
      jsonName,
      isInline: options.includes('inline'),
      isPointer: type.startsWith('*'),
      omitsEmpty: options.includes('omitempty'),
    });
  }
  return fields;
}

/**
 * `k8s.io.api.core.v1.Pod` -> `core.Pod`, `k8s.io.api.apps.v1beta1.Deployment` -> `apps/v1beta1.Deployment`,
 * `k8s.io.apimachinery.pkg.api.resource.Quantity` -> `resource.Quantity`.
 */
function shortName(fullTypeName: string): string {
  const parts = fullTypeName.split('.');
  const type = parts.pop() ?? '';
  const last = parts.pop() ?? '';
  if (!/^v\d/.test(last)) return `${last}.${type}`;
  return `${parts.pop() ?? ''}${last === 'v1' ? '' : `/${last}`}.${type}`;
}

class Fields {
  readonly #files = new Map<string, string>();
  readonly #packages = new Map<string, Package>();
  readonly #messages = new Map<string, Record<string, string>>();

  constructor(directories: readonly string[]) {
    for (const directory of directories) {
      for (const path of globSync('**/k8s.io/**/generated.proto', { cwd: directory })) {
        const file = join(directory, path);
        const name = /^package ([\w.-]+);$/m.exec(readFileSync(file, 'utf8'))?.[1];
        if (name !== undefined) this.#files.set(name.replaceAll('-', '_'), file);
      }
    }
  }

  get messages(): Record<string, Readonly<Record<string, string>>> {
    return Object.fromEntries([...this.#messages].toSorted(([a], [b]) => (a < b ? -1 : 1)));
  }

  /** A message and all that its fields are made of. Returns its name. */
  add(full: string): string {
    const name = shortName(full);
    if (this.#messages.has(name)) return name;
    const written: Record<string, string> = {};
    this.#messages.set(name, written);
    const dot = full.lastIndexOf('.');
    const [packageName, message] = [full.slice(0, dot), full.slice(dot + 1)];
    const owner = this.#package(packageName);
    const fields = owner.messages.get(message);
    if (fields === undefined) throw new Error(`there is no message ${full}`);
    const hasForm = forms.has(name);
    if (owner.marshalers.has(message) && !hasForm) {
      throw new Error(`${full} writes a JSON of its own, which forms.ts does not know`);
    }
    if (hasForm) {
      for (const field of fields) written[field.name] = this.#text(field, specialField);
      return name;
    }
    const struct = owner.structs.get(message) ?? new Map<number, GoField>();
    const byNumber = new Map(fields.map((field) => [field.number, field]));
    for (const [number, goField] of struct) {
      const field = byNumber.get(number);
      byNumber.delete(number);
      if (field === undefined) throw new Error(`${full} has no field ${number} in the proto file`);
      written[goField.isInline ? field.name : goField.jsonName] = this.#text(field, goField);
    }
    const [left] = byNumber.values();
    if (left !== undefined) throw new Error(`${full}.${left.name} has no field in Go`);
    return name;
  }

  #package(name: string): Package {
    const known = this.#packages.get(name);
    if (known !== undefined) return known;
    const file = this.#files.get(name.replaceAll('-', '_'));
    if (file === undefined) throw new Error(`none of the directories has the package ${name}`);
    const made = new Package(file, name);
    this.#packages.set(name, made);
    return made;
  }

  #text({ number, type, form }: ProtoField, { isInline, isPointer, omitsEmpty }: GoField): string {
    const isScalar = scalars.has(type);
    const typeName = isScalar ? type : this.add(type);
    if (form === 'list') return `${number} []${typeName}`;
    if (form === 'map') return `${number} {}${typeName}`;
    if (isInline) return `${number} ...${typeName}`;
    if (isPointer) return `${number} *${typeName}`;
    return isScalar && !omitsEmpty ? `${number} ${typeName}!` : `${number} ${typeName}`;
  }
}

const specialField: GoField = { jsonName: '', isInline: false, isPointer: true, omitsEmpty: true };

/** The kinds, as `apiVersion kind`, and the names of their messages. */
function kindsOf(): [string, string][] {
  const kinds: [string, string][] = [];
  const { definitions } = JSON.parse(readFileSync(join(top, 'lib/apiserver/builtin/kinds.json'), 'utf8')) as {
    definitions: Record<string, Readonly<Record<string, unknown>>>;
  };
  for (const [name, definition] of Object.entries(definitions)) {
    const served = (definition['x-kubernetes-group-version-kind'] ?? []) as readonly {
      readonly group: string;
      readonly version: string;
      readonly kind: string;
    }[];
    for (const { group, version, kind } of served) {
      kinds.push([`${group === '' ? version : `${group}/${version}`} ${kind}`, name]);
    }
  }
  return kinds.toSorted(([a], [b]) => (a < b ? -1 : 1));
}

/** `io.k8s.api.core.v1.Pod` -> `k8s.io.api.core.v1.Pod` */
function protoName(openApiName: string): string {
  return openApiName.replace(/^io\.k8s\./, 'k8s.io.');
}

const [version, ...directories] = process.argv.slice(2);
if (version === undefined || directories.length === 0) {
  process.stderr.write('usage: node scripts/proto-fields.ts VERSION DIRECTORY...\n');
  process.exitCode = 2;
} else {
  const fields = new Fields(directories);
  const kinds = kindsOf().map(([kind, name]) => [kind, fields.add(protoName(name))] as const);
  // Deletions of every group have it as their body.
  fields.add('k8s.io.apimachinery.pkg.apis.meta.v1.DeleteOptions');
  const { messages } = fields;
  const table = {
    source: `k8s.io/api, k8s.io/apimachinery and k8s.io/apiextensions-apiserver ${version}`,
    kinds: Object.fromEntries(kinds),
    messages,
  };
  writeFileSync(target, `${JSON.stringify(table, null, 2)}\n`);
  process.stdout.write(`fields: written, ${Object.keys(messages).length} messages\n`);
}
