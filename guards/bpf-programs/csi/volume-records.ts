/** Records the mounted volumes for the next process. On tmpfs, since mounts end with this boot as well. */
import { mkdirSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

import { keyOf } from '../kernel/records.ts';
import type { VolumeMaps } from './volume-maps.ts';

/** A mounted volume. */
export interface Volume extends VolumeMaps {
  readonly volumeId: string;
  readonly targetPath: string;
  readonly readOnly: boolean;
  readonly group?: number | undefined;
  /** The kernel's IDs of the maps, in the order of `maps`. */
  readonly mapIds: readonly number[];
}

export class VolumeRecords {
  readonly #directory: string;
  readonly #volumes = new Map<string, Volume>();

  /** Reads the records of an earlier process. @throws {Error} errors of the file system */
  constructor(directory: string) {
    this.#directory = directory;
    mkdirSync(directory, { recursive: true, mode: 0o700 });
    for (const name of readdirSync(directory)) {
      // Interrupted writes leave files with other names.
      if (!name.endsWith('.json')) continue;
      const volume = JSON.parse(readFileSync(join(directory, name), 'utf8')) as Volume;
      this.#volumes.set(volume.volumeId, volume);
    }
  }

  get all(): readonly Volume[] {
    return [...this.#volumes.values()];
  }

  get(volumeId: string): Volume | undefined {
    return this.#volumes.get(volumeId);
  }

  put(volume: Volume): void {
    const path = this.#path(volume.volumeId);
    writeFileSync(`${path}.new`, JSON.stringify(volume), { mode: 0o600 });
    renameSync(`${path}.new`, path);
    this.#volumes.set(volume.volumeId, volume);
  }

  drop(volumeId: string): void {
    rmSync(this.#path(volumeId), { force: true });
    this.#volumes.delete(volumeId);
  }

  #path(volumeId: string): string {
    return join(this.#directory, `${keyOf(volumeId)}.json`);
  }
}
