/** Combines stored instructions with the maps that they use. */
import { join } from 'node:path';

import type { Descriptor } from '../../../../lib/ebpf/bpf-call.ts';
import type { Instructions } from '../../../../lib/ebpf/instructions.ts';
import { openPin } from '../pins/pin.ts';
import { ProgramFailure } from '../failure.ts';
import type { Pins } from '../pins/pins.ts';
import type { ProgramRecord, Records } from '../records.ts';

/** The maps of programs, opened by their pins until a composition is loaded. */
export class OpenMaps implements Disposable {
  readonly #pins: Pins;
  readonly #open: Descriptor[] = [];

  constructor(pins: Pins) {
    this.#pins = pins;
  }

  /** The program's instructions with descriptors of its maps. @throws {ProgramFailure} `load`: a pin is missing */
  resolve(record: ProgramRecord, records: Records): Instructions {
    const instructions = records.instructions(record);
    const fds = record.maps.map(({ pin: name }) => {
      const map = openPin(join(this.#pins.program(record), 'maps', name));
      if (map === undefined)
        throw new ProgramFailure(
          'load',
          `The pin of its map ${name} is gone. The program is loaded again.`,
          true,
        );
      this.#open.push(map);
      return map.fd;
    });
    for (const { index, immediate } of instructions.copy().mapReferences())
      instructions.setImmediate(index, fds[immediate] ?? -1);
    return instructions;
  }

  [Symbol.dispose](): void {
    for (const map of this.#open.splice(0)) map[Symbol.dispose]();
  }
}
