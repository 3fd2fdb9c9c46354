/**
 * Uprobes are attached to files, and follow their paths: if a path leads to another file, for example after a package upgrade, they are
 * attached to that one as well, and stay in the earlier file for as long as processes use it.
 */
import { renameSync } from 'node:fs';
import { join } from 'node:path';

import type { Descriptor } from '../../../../lib/ebpf/bpf-call.ts';
import { AT_FDCWD, type Fd, openat2, openFlags } from '../../../../lib/ebpf/libc.ts';
import type { TrackedPath } from '../../../../lib/sensor/paths/path-state.ts';
import type { Logger } from '../../../../lib/telemetry/log.ts';
import { attachPoint } from '../attach-point.ts';
import { composeGated } from '../compose/compose.ts';
import { loadComposition } from '../compose/load-composition.ts';
import type { Attach } from '../desired.ts';
import { ProgramFailure } from '../failure.ts';
import { gateOf } from '../gate.ts';
import { attachUprobe } from '../link/uprobe.ts';
import { OpenMaps } from '../load/open-maps.ts';
import { programTypes } from '../load/program-types.ts';
import type { LoadedProgram } from '../load/loaded-program.ts';
import type { Programs } from '../load/programs.ts';
import { openPin, pin, unpin } from '../pins/pin.ts';
import { openProgram, type Pins } from '../pins/pins.ts';
import { openContainer, readProcess } from '../place/container.ts';
import type { ProbedFile, ProgramRecord, Records } from '../records.ts';
import type { Verdicts } from '../verdicts.ts';
import { attachKeyOf } from './attach-key.ts';
import { MappedFiles } from './mapped-files.ts';
import { TargetPaths } from './target-paths.ts';
import {
  CACHE,
  cacheState,
  fileState,
  openTarget,
  probeOffset,
  stateAt,
  type Target,
} from './uprobe-target.ts';

type Uprobe = Extract<Attach, { type: 'uprobe' | 'uretprobe' }>;

export interface UprobesOptions {
  readonly programs: Programs;
  readonly pins: Pins;
  readonly records: Records;
  /** The path of the node's root. */
  readonly hostRoot: string;
  readonly logger: Logger;
  /** Called when targets may have become other files. */
  readonly onChange: () => void;
}

/** Limit of attachments to earlier files: each keeps a deleted file, and so its space on the disk. */
const MAX_EARLIER = 8;

/** Where a target is resolved. */
interface Place extends Disposable {
  readonly root: Fd;
  /** A process of the container; undefined on the node itself. */
  readonly process: Fd | undefined;
}

interface Failed {
  readonly key: string;
  readonly failure: ProgramFailure;
}

/** The uprobes of this host. */
export class Uprobes implements Disposable {
  readonly #options: UprobesOptions;
  readonly #mapped = new MappedFiles();
  readonly #paths: TargetPaths;
  /** Files without the requested function, by the program's id: the tables of a large file are not read again until it changes. */
  readonly #failed = new Map<string, Failed>();

  constructor(options: UprobesOptions) {
    this.#options = options;
    this.#paths = new TargetPaths(options);
  }

  /** Determines which earlier files are still in use. Call it before {@link settle}, which is synchronous. */
  async look(signal?: AbortSignal): Promise<void> {
    const known = [...this.#options.programs.known.values()];
    await this.#mapped.look(
      known.flatMap(({ probedBefore = [] }) => probedBefore),
      signal,
    );
  }

  /** Attaches uprobes that are not in the files that their targets lead to. */
  settle(loaded: readonly LoadedProgram[], verdicts: Verdicts): void {
    const followed: TrackedPath[] = [];
    const ids = new Set<string>();
    for (const one of loaded) {
      const { program, record: asked } = one;
      const { attach } = program;
      if (attach.type !== 'uprobe' && attach.type !== 'uretprobe') continue;
      ids.add(asked.id);
      verdicts.attach(one, (record) => {
        using before = record.attachKey === '' ? undefined : openPin(this.#pinOf(record, 'link'));
        // A previous version of another type, such as uretprobe, stays attached.
        if (before !== undefined && record.type !== attach.type) return [];
        try {
          const now = this.#settleOne(record, attach, followed);
          const previous = record === asked ? one.previous : undefined;
          return notesOf(previous === undefined ? now : this.#takeEarlier(previous, now));
        } catch (error) {
          // If the uprobe was in a container, its file may be gone with the container.
          if (
            before === undefined ||
            record.attachKey === attachKeyOf(attach) ||
            attach.container !== undefined
          )
            throw error;
          verdicts.keep(program, record, error);
          return [];
        }
      });
    }
    for (const id of this.#failed.keys()) if (!ids.has(id)) this.#failed.delete(id);
    this.#paths.follow(followed);
  }

  #settleOne(record: ProgramRecord, attach: Uprobe, followed: TrackedPath[]): ProgramRecord {
    const attachKey = attachKeyOf(attach);
    const linkPath = this.#pinOf(record, 'link');
    let now = this.#dropUnused(record);
    const current = now.attachKey === attachKey ? now.probed : undefined;
    using place = this.#open(attach);
    const { root } = place;
    const { container, target: name } = attach;
    const follow = (path: string): void => {
      const rootPath = container === undefined ? this.#options.hostRoot : `/proc/${container.pid}/root`;
      followed.push({ root: rootPath, path });
      if (!name.includes('/')) followed.push({ root: rootPath, path: CACHE });
    };
    using there = current && openPin(linkPath);
    const cache = cacheState(root, name);
    if (current !== undefined && there !== undefined && current.cache === cache) {
      follow(current.path);
      if (isSame(stateAt(root, current.path), current)) return now;
    }
    const target = found(root, name, place.process);
    using file = target instanceof ProgramFailure ? undefined : target.file;
    const state = file && fileState(file);
    if (current !== undefined && there !== undefined) {
      if (isSame(state, current)) return this.#remember({ ...now, probed: { ...current, cache } });
      // The file was written in place: the probe's offset now has other code.
      if (state?.file === current.file) release(linkPath);
      now = this.#remember(
        state?.file === current.file ? { ...now, probed: undefined } : this.#leave(now, current),
      );
    }
    try {
      if (target instanceof ProgramFailure) {
        follow(current?.path ?? (name.includes('/') ? name : CACHE));
        throw target;
      }
      follow(target.path);
      const key = `${attachKey} ${state?.file} ${state?.content}`;
      this.#attach(now, attach, place, target, this.#offset(record.id, key, target, attach));
      const probed = { pin: 'link', path: target.path, cache, ...fileState(target.file) };
      // Attachments to earlier files of another attach point are useless now.
      const { probedBefore = [] } = now;
      const isMoved = now.attachKey !== attachKey;
      if (isMoved) for (const one of probedBefore) release(this.#pinOf(record, one.pin));
      return this.#remember({ ...now, attachKey, probed, probedBefore: isMoved ? [] : probedBefore });
    } catch (error) {
      throw now.attachKey === attachKey ? staying(error, now) : error;
    }
  }

  /** @throws {ProgramFailure} `target`: the container is gone */
  #open({ container, pid }: Uprobe): Place {
    const flags = openFlags.PATH | openFlags.DIRECTORY;
    using stack = new DisposableStack();
    const process = container && stack.use(openContainer(container));
    if (container !== undefined && pid !== undefined) openContainer({ ...container, pid })[Symbol.dispose]();
    const root = stack.use(
      process === undefined
        ? openat2(AT_FDCWD, this.#options.hostRoot, { flags })
        : openat2(process, 'root', { flags }),
    );
    const held = stack.move();
    return { root, process, [Symbol.dispose]: () => held.dispose() };
  }

  /** The offset of the probe in the target. @throws {ProgramFailure} `target` */
  #offset(id: string, key: string, target: Target, { functionName, offset }: Uprobe): bigint {
    const known = this.#failed.get(id);
    if (known?.key === key) throw known.failure;
    try {
      const fileOffset = probeOffset(target, functionName, offset);
      this.#failed.delete(id);
      return fileOffset;
    } catch (error) {
      if (error instanceof ProgramFailure) this.#failed.set(id, { key, failure: error });
      throw error;
    }
  }

  /** Attaches a new link, and gives it the name of the previous one, which is detached by that. */
  #attach(record: ProgramRecord, attach: Uprobe, place: Place, target: Target, fileOffset: bigint): void {
    using program = this.#program(record, attach, place);
    using link = attachUprobe(
      program,
      {
        path: `/proc/self/fd/${target.file.number}`,
        fileOffset,
        atReturn: attach.type === 'uretprobe',
        pid: attach.pid,
      },
      attachPoint(attach),
    );
    const newPath = this.#pinOf(record, 'link-new');
    unpin(newPath);
    pin(link.fd, newPath);
    renameSync(newPath, this.#pinOf(record, 'link'));
  }

  /** The program to attach. In a container, it is one behind a gate. */
  #program(record: ProgramRecord, { container }: Uprobe, { process }: Place): Descriptor {
    const { pins, records } = this.#options;
    if (container === undefined || process === undefined) {
      const own = openProgram(this.#pinOf(record, 'program'), record.programId);
      if (own !== undefined) return own;
      throw new ProgramFailure('attach', 'Its pin is gone. The program is loaded again.', true);
    }
    const gate = gateOf(process, container);
    using maps = new OpenMaps(pins);
    const instructions = maps.resolve(record, records);
    using gated = new DisposableStack();
    const program = gated.use(
      loadComposition(composeGated(gate, { name: record.functionName, instructions }), {
        ...programTypes[record.type],
        name: 'rampart_gated',
        gpl: record.gpl,
      }),
    );
    const path = this.#pinOf(record, 'gated');
    unpin(path);
    pin(program.fd, path);
    gated.move();
    return program;
  }

  /** Keeps the link in the earlier file under another name, since processes may still use that file. */
  #leave(record: ProgramRecord, current: ProbedFile): ProgramRecord {
    const { probedBefore = [] } = record;
    const numbers = probedBefore.map(({ pin: name }) => Number(name.slice('before-'.length)));
    const name = `before-${1 + Math.max(0, ...numbers)}`;
    renameSync(this.#pinOf(record, 'link'), this.#pinOf(record, name));
    const all = [...probedBefore, { ...current, pin: name }];
    for (const { pin: oldest, path } of all.slice(0, -MAX_EARLIER)) {
      release(this.#pinOf(record, oldest));
      this.#options.logger.warn(
        { program: record.owner, path },
        `more than ${MAX_EARLIER} earlier files are in use: processes that use the oldest are not probed any more`,
      );
    }
    return { ...record, probed: undefined, probedBefore: all.slice(-MAX_EARLIER) };
  }

  /**
   * Takes the previous version's links in earlier files over to the new record. That version stays in those files: the new one cannot be
   * attached there.
   */
  #takeEarlier({ attachKey, probed, probedBefore = [], ...previous }: ProgramRecord, now: ProgramRecord) {
    if (attachKey !== now.attachKey) return now;
    const isEarlier = probed !== undefined && probed.file !== now.probed?.file;
    const all = [...probedBefore, ...(isEarlier ? [probed] : [])].slice(-MAX_EARLIER);
    if (all.length === 0) return now;
    const taken = all.map((one, index) => {
      const name = `before-${index + 1}`;
      renameSync(
        join(this.#options.pins.program(previous), one.pin),
        join(this.#options.pins.program(now), name),
      );
      return { ...one, pin: name };
    });
    return this.#remember({ ...now, probedBefore: taken });
  }

  #dropUnused(record: ProgramRecord): ProgramRecord {
    const { probedBefore = [] } = record;
    const unused = probedBefore.filter((one) => this.#mapped.takeUnused(one));
    if (unused.length === 0) return record;
    for (const { pin: name } of unused) release(this.#pinOf(record, name));
    return this.#remember({ ...record, probedBefore: probedBefore.filter((one) => !unused.includes(one)) });
  }

  #remember(record: ProgramRecord): ProgramRecord {
    this.#options.programs.remember(record);
    return record;
  }

  #pinOf(record: ProgramRecord, name: string): string {
    return join(this.#options.pins.program(record), name);
  }

  [Symbol.dispose](): void {
    this.#paths[Symbol.dispose]();
  }
}

function isSame(
  state: Pick<ProbedFile, 'content' | 'file'> | undefined,
  { file, content }: ProbedFile,
): boolean {
  return state?.file === file && state.content === content;
}

/** Opens the target, or returns why it cannot; the caller disposes of the file. */
function found(root: Fd, name: string, process: Fd | undefined): ProgramFailure | Target {
  try {
    return openTarget(root, name, process === undefined ? '' : readProcess(process, 'maps'));
  } catch (error) {
    if (error instanceof ProgramFailure) return error;
    throw error;
  }
}

/**
 * Unpins and detaches a link. It is held open until it is unpinned: when it is then closed, it is released at once; a link that is only
 * unpinned is released some milliseconds later.
 */
function release(path: string): void {
  using _link = openPin(path);
  unpin(path);
}

function staying(error: unknown, { probedBefore = [] }: ProgramRecord): unknown {
  if (!(error instanceof ProgramFailure) || probedBefore.length === 0) return error;
  const text = `${error.message} It stays in ${earlier(probedBefore)}.`;
  return new ProgramFailure(error.reason, text, error.mayPass, error);
}

function notesOf({ probedBefore = [] }: ProgramRecord): readonly string[] {
  return probedBefore.length === 0 ? [] : [`it also stays in ${earlier(probedBefore)}`];
}

/** A phrase: `the file that was /usr/lib/libc.so.6 before and that processes use`. */
function earlier(files: readonly ProbedFile[]): string {
  const paths = [...new Set(files.map(({ path }) => path))].join(', ');
  return files.length === 1
    ? `the file that was ${paths} before and that processes still use`
    : `${files.length} files that were ${paths} before and that processes still use`;
}
