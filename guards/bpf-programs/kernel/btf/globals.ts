/** Sets global variables of a program before it is loaded. */
import { errorCodes, RampartError } from '../../../../lib/errors/errors.ts';
import { Btf } from './btf.ts';
import type { BpfObject } from '../../../../lib/ebpf/object.ts';

/**
 * Sets the initial values of variables by their C names, including `static` and `const volatile` ones. Call it before loading.
 *
 * @param values - In the kernel's layout, each exactly as long as its variable.
 * @throws {RampartError} `INPUT` if a variable does not exist, or has another size.
 */
export function setGlobals(object: BpfObject, values: Readonly<Record<string, Uint8Array>>): void {
  const names = Object.keys(values);
  if (names.length === 0) return;
  const types = object.types();
  if (types === undefined)
    throw refused(`cannot set ${names.join(', ')}`, 'the object file has no BTF', 'Compile it with -g');
  const variables = new Btf(types).variables();
  for (const [name, value] of Object.entries(values)) {
    const variable = variables.get(name);
    if (variable === undefined) {
      const known = [...variables.keys()].toSorted().join(', ');
      throw refused(
        `cannot set ${name}`,
        'the program has no such global variable',
        `It has: ${known || 'none'}`,
      );
    }
    if (variable.sizeBytes !== value.byteLength) {
      const sizes = `it has ${variable.sizeBytes} bytes, the value ${value.byteLength}`;
      throw refused(`cannot set ${name}`, sizes, 'Give a value of exactly that size');
    }
    object.initialValue(variable.section).set(value, variable.offset);
  }
}

function refused(what: string, why: string, next: string): RampartError {
  return new RampartError(errorCodes.INPUT, { what, why, next });
}
