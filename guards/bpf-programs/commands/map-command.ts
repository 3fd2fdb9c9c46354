/** `rampart bpf map`: options only; the implementation is loaded on demand. */
import { Command, Option } from 'commander';

import { addHelp } from '../../../lib/cli/help.ts';
import { addOutput, type PrettyFormat, prettyFormats } from '../../../lib/cli/output-option.ts';
import { wholeNumber } from '../../../lib/cli/options.ts';
import { addPlace, type BpfOptions, inspecting, type PlaceOptions } from './options.ts';

export interface MapListOptions extends BpfOptions {
  readonly all?: true;
}

export interface MapChangeOptions extends BpfOptions {
  readonly force?: true;
}

export interface MapUpdateOptions extends MapChangeOptions {
  readonly exist?: true;
  readonly noexist?: true;
}

export interface MapEventsOptions extends PlaceOptions {
  readonly output: PrettyFormat;
  readonly force?: true;
  readonly type?: string;
  readonly count?: number;
}

const namesNote =
  'PROGRAM is the kernel ID of a program, its owner (XdpProgram/count), or the name of its BpfProgram; MAP is the name of the map in C. For other maps: id ID, name NAME, or pinned PATH.';

const valuesNote = `Keys and values are JSON, as dump shows them: 80, '"eth0"', '{"port": 80}'. hex: and digits are bytes in the order of the node: hex:0a000001.`;

function ofMap(name: string): Command {
  return new Command(name)
    .argument('<program>', 'the program; or id, name or pinned')
    .argument('<map>', 'the map; or its ID, name or path');
}

const forceText = 'also for a map that no program of Rampart uses';

function listCommand(): Command {
  const command = inspecting(new Command('list'), 'rampart.dev/bpf-maps/v1')
    .summary('list maps')
    .description('Lists the maps of the programs of Rampart: their types, sizes, and the objects.')
    .option('--all', 'all maps of the kernel')
    .action(async (options: MapListOptions) => {
      const { runMapList } = await import('./map.ts');
      runMapList(options);
    });
  return addHelp(command, { examples: ['rampart bpf map list', 'rampart bpf map list --all -o json'] });
}

function dumpCommand(): Command {
  const command = inspecting(ofMap('dump'), 'rampart.dev/bpf-map-dump/v1')
    .summary('show all entries')
    .description('Shows the entries of a map, decoded with the key and value types of the program.')
    .action(async (program: string, map: string, options: BpfOptions) => {
      const { runDump } = await import('./map.ts');
      runDump({ program, map }, options);
    });
  return addHelp(command, {
    notes: [namesNote],
    examples: [
      'rampart bpf map dump XdpProgram/count packets',
      'rampart bpf map dump id 17 -o json | jq .entries',
    ],
  });
}

function lookupCommand(): Command {
  const command = inspecting(ofMap('lookup'), 'rampart.dev/bpf-map-entry/v1')
    .argument('<key>', 'the key')
    .summary('show one entry')
    .description('Shows the entry with a key.')
    .action(async (program: string, map: string, key: string, options: BpfOptions) => {
      const { runLookup } = await import('./map.ts');
      process.exitCode = runLookup({ program, map }, key, options);
    });
  return addHelp(command, {
    notes: [namesNote, valuesNote],
    examples: [`rampart bpf map lookup XdpProgram/count ports '{"port": 80}' -o json`],
    exitCodes: { 0: 'it is there', 1: 'it is not' },
  });
}

function updateCommand(): Command {
  const command = inspecting(ofMap('update'), 'rampart.dev/bpf-map-entry/v1')
    .argument('<key>', 'the key')
    .argument('<value>', 'the new value')
    .summary('set the value of a key')
    .description(
      'Sets the value of a key and shows the entry. Members that are left out keep their values; what programs write to them meanwhile is lost. One value for a map with a value per CPU is for all CPUs.',
    )
    .addOption(new Option('--exist', 'only if the key is there').conflicts('noexist'))
    .option('--noexist', 'only if the key is not there')
    .option('--force', forceText)
    .action(async (program: string, map: string, key: string, value: string, options: MapUpdateOptions) => {
      const { runUpdate } = await import('./map.ts');
      runUpdate({ program, map }, { key, value }, options);
    });
  return addHelp(command, {
    notes: [namesNote, valuesNote],
    examples: [`rampart bpf map update XdpProgram/count .data 0 '{"limit": 9}' -o json`],
  });
}

function deleteCommand(): Command {
  const command = inspecting(ofMap('delete'), 'rampart.dev/bpf-map-delete/v1')
    .argument('<key>', 'the key')
    .summary('remove one entry')
    .description('Removes the entry with a key.')
    .option('--force', forceText)
    .action(async (program: string, map: string, key: string, options: MapChangeOptions) => {
      const { runDelete } = await import('./map.ts');
      process.exitCode = runDelete({ program, map }, key, options);
    });
  return addHelp(command, {
    notes: [namesNote, valuesNote],
    examples: [`rampart bpf map delete XdpProgram/count ports '{"port": 80}' -o json`],
    exitCodes: { 0: 'removed', 1: 'it is not there' },
  });
}

function eventsCommand(): Command {
  const command = addPlace(ofMap('events'))
    .summary('show what programs write')
    .description(
      'Shows events until it is interrupted. Each event is read once: a program that reads the same map does not get what is shown here. Refused while another process reads it.',
    )
    .option('--type <name>', 'decode events as this type of the program')
    .option('--count <events>', 'end after so many events', wholeNumber)
    .option('--force', 'take the events of another process, or of a map of others')
    .action(async (program: string, map: string, options: MapEventsOptions) => {
      const { runEvents } = await import('./map-events.ts');
      await runEvents({ program, map }, options);
    });
  addOutput(command, prettyFormats, {
    schemas: ['rampart.dev/bpf-map-event/v1'],
    formerNames: { table: 'pretty' },
  });
  return addHelp(command, {
    notes: [namesNote],
    examples: ['rampart bpf map events TracepointProgram/opens events --count 9 -o json'],
    exitCodes: { 0: 'done, or stopped by Ctrl-C or SIGTERM' },
  });
}

export function mapCommand(): Command {
  const command = new Command('map')
    .summary('list, read and change maps of programs')
    .description('Lists, reads and changes maps of eBPF programs. Requires root.')
    .addCommand(listCommand())
    .addCommand(dumpCommand())
    .addCommand(lookupCommand())
    .addCommand(updateCommand())
    .addCommand(deleteCommand())
    .addCommand(eventsCommand());
  return addHelp(command, {
    examples: ['rampart bpf map list', 'rampart bpf map dump XdpProgram/count packets'],
  });
}
