/** The trees that are scanned. They are made for the run and removed after it. */
import { randomBytes } from 'node:crypto';
import * as fs from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

const FILES_PER_DIRECTORY = 100;
const DIRECTORIES_PER_DIRECTORY = 10;
/** One file in ten is large, so that the whole is 1.05 GB for 100,000. */
const LARGE_BYTES = 55_000;
const SMALL_BYTES = 500;
const SMALL_SPREAD = 10_000;

/** A directory with a tree; dispose it to remove both. */
export class Tree implements Disposable {
  readonly directory = fs.mkdtempSync(join(tmpdir(), 'rampart-bench-'));
  readonly root = join(this.directory, 'tree');

  constructor() {
    fs.mkdirSync(this.root);
  }

  /** Files of 500 bytes to 55 kB in directories of a hundred. */
  static ofFiles(count: number): Tree {
    const tree = new Tree();
    const bytes = randomBytes(1 << 20);
    for (let file = 0; file < count; file++) {
      const place = tree.#place(file);
      const size = file % 10 === 0 ? LARGE_BYTES : SMALL_BYTES + ((file * 37) % SMALL_SPREAD);
      const from = (file * 7919) % (bytes.length - LARGE_BYTES);
      fs.writeFileSync(place, bytes.subarray(from, from + size));
    }
    return tree;
  }

  /** Empty files in one directory. */
  static flat(count: number): Tree {
    const tree = new Tree();
    for (let file = 0; file < count; file++) fs.closeSync(fs.openSync(join(tree.root, `file-${file}`), 'w'));
    return tree;
  }

  /** Names of few files: making a million files would take longer than all the rest. */
  static ofLinks(count: number): Tree {
    const tree = new Tree();
    /** ext4 allows 65,000 (ext4.h, EXT4_LINK_MAX). */
    const linksEach = 50_000;
    for (let link = 0; link < count; link++) {
      const place = tree.#place(link);
      const source = join(tree.directory, `source-${Math.floor(link / linksEach)}`);
      if (link % linksEach === 0) fs.writeFileSync(source, 'x'.repeat(100));
      fs.linkSync(source, place);
    }
    return tree;
  }

  /** Some file in the middle of {@link ofFiles}. */
  get oneFile(): string {
    return '/d0/d0/file-50';
  }

  #place(file: number): string {
    const directory = Math.floor(file / FILES_PER_DIRECTORY);
    const path = join(
      this.root,
      `d${Math.floor(directory / DIRECTORIES_PER_DIRECTORY)}`,
      `d${directory % DIRECTORIES_PER_DIRECTORY}`,
    );
    if (file % FILES_PER_DIRECTORY === 0) fs.mkdirSync(path, { recursive: true });
    return join(path, `file-${file}`);
  }

  [Symbol.dispose](): void {
    fs.rmSync(this.directory, { recursive: true, force: true });
  }
}
