/** `rampart bpf map`: options only; the implementation is loaded on demand. */
import { Command, Option } from 'commander';

import { failWith } from '../../../lib/cli/failure.ts';
import { wholeNumber } from '../../../lib/cli/options.ts';
import { type BpfOptions, inspecting } from './options.ts';

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

export interface MapEventsOptions extends MapChangeOptions {
  readonly type?: string;
  readonly count?: number;
}

const namesHelp = `
PROGRAM is the kernel ID of a program, its owner (XdpProgram/count), or the
name of its BpfProgram; MAP is the name of the map in C. For other maps:
id ID, name NAME, or pinned PATH.`;

const valuesHelp = `
Keys and values are JSON, as dump shows them: 80, '"eth0"', '{"port": 80}'.
hex: and digits are bytes in the order of the node: hex:0a000001.`;

function ofMap(name: string): Command {
  return inspecting(
    new Command(name)
      .argument('<program>', 'the program; or id, name or pinned')
      .argument('<map>', 'the map; or its ID, name or path'),
  );
}

const forceText = 'also for a map that no program of Rampart uses';

function listCommand(): Command {
  return inspecting(new Command('list'))
    .summary('list maps')
    .description('Lists the maps of the programs of Rampart: their types, sizes, and the objects.')
    .option('--all', 'all maps of the kernel')
    .addHelpText('after', '\nExample:\n  rampart bpf map list --all')
    .action(async (options: MapListOptions) => {
      const { runMapList } = await import('./map.ts');
      runMapList(options);
    });
}

function dumpCommand(): Command {
  return ofMap('dump')
    .summary('show all entries')
    .description('Shows the entries of a map, decoded with the key and value types of the program.')
    .addHelpText('after', `${namesHelp}\n\nExample:\n  rampart bpf map dump XdpProgram/count packets`)
    .action(async (program: string, map: string, options: BpfOptions) => {
      const { runDump } = await import('./map.ts');
      runDump({ program, map }, options);
    });
}

function lookupCommand(): Command {
  return ofMap('lookup')
    .argument('<key>', 'the key')
    .summary('show one entry')
    .description('Shows the entry with a key. Exit codes: 0 it is there, 1 it is not, 2 failed.')
    .addHelpText(
      'after',
      `${namesHelp}\n${valuesHelp}\n\nExample:\n  rampart bpf map lookup XdpProgram/count ports '{"port": 80}'`,
    )
    .action(async (program: string, map: string, key: string, options: BpfOptions) => {
      // 1 means that there is no such entry.
      failWith(2);
      const { runLookup } = await import('./map.ts');
      process.exitCode = runLookup({ program, map }, key, options);
    });
}

function updateCommand(): Command {
  return ofMap('update')
    .argument('<key>', 'the key')
    .argument('<value>', 'the new value')
    .summary('set the value of a key')
    .description(
      'Sets the value of a key and shows the entry. Members that are left out keep their values; what programs write to them meanwhile is lost. One value for a map with a value per CPU is for all CPUs.',
    )
    .addOption(new Option('--exist', 'only if the key is there').conflicts('noexist'))
    .option('--noexist', 'only if the key is not there')
    .option('--force', forceText)
    .addHelpText(
      'after',
      `${namesHelp}\n${valuesHelp}\n\nExample:\n  rampart bpf map update XdpProgram/count .data 0 '{"limit": 100}'`,
    )
    .action(async (program: string, map: string, key: string, value: string, options: MapUpdateOptions) => {
      const { runUpdate } = await import('./map.ts');
      runUpdate({ program, map }, { key, value }, options);
    });
}

function deleteCommand(): Command {
  return ofMap('delete')
    .argument('<key>', 'the key')
    .summary('remove one entry')
    .description('Removes the entry with a key. Exit codes: 0 removed, 1 it is not there, 2 failed.')
    .option('--force', forceText)
    .addHelpText(
      'after',
      `${namesHelp}\n${valuesHelp}\n\nExample:\n  rampart bpf map delete XdpProgram/count ports '{"port": 80}'`,
    )
    .action(async (program: string, map: string, key: string, options: MapChangeOptions) => {
      failWith(2);
      const { runDelete } = await import('./map.ts');
      process.exitCode = runDelete({ program, map }, key, options);
    });
}

function eventsCommand(): Command {
  return ofMap('events')
    .summary('show what programs write')
    .description(
      'Shows events until it is interrupted. Each event is read once: a program that reads the same map does not get what is shown here. Refused while another process reads it.',
    )
    .option('--type <name>', 'decode events as this type of the program')
    .option('--count <events>', 'end after so many events', wholeNumber)
    .option('--force', 'take the events of another process, or of a map of others')
    .addHelpText(
      'after',
      `${namesHelp}\n\nExample:\n  rampart bpf map events TracepointProgram/opens events --type event`,
    )
    .action(async (program: string, map: string, options: MapEventsOptions) => {
      const { runEvents } = await import('./map-events.ts');
      await runEvents({ program, map }, options);
    });
}

export function mapCommand(): Command {
  return new Command('map')
    .summary('list, read and change maps of programs')
    .description('Lists, reads and changes maps of eBPF programs. Requires root.')
    .addHelpText('after', '\nExample:\n  rampart bpf map dump XdpProgram/count packets')
    .addCommand(listCommand())
    .addCommand(dumpCommand())
    .addCommand(lookupCommand())
    .addCommand(updateCommand())
    .addCommand(deleteCommand())
    .addCommand(eventsCommand());
}
