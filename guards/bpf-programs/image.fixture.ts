/** Images with bytecode, as bpfman's tools build them. */
import { readFileSync } from 'node:fs';
import { basename, join } from 'node:path';

import { layerMediaType, tarGzip } from './node/archive.fixture.ts';
import type { PushedArtifact } from '../../lib/oci/registry.fixture.ts';

/** With `xdp_count` and `tc_count`, which count in the map `packets`. */
export const countObject: string = join(import.meta.dirname, 'kernel/fixtures/count.bpf.o');

/** One object file, with the types of its programs and maps by name. */
export function bytecodeImage(
  path: string,
  programs: Readonly<Record<string, string>>,
  maps: Readonly<Record<string, string>> = {},
): PushedArtifact {
  const layer = tarGzip([{ name: basename(path), content: readFileSync(path) }]);
  const labels = { 'io.ebpf.programs': JSON.stringify(programs), 'io.ebpf.maps': JSON.stringify(maps) };
  return {
    layers: [{ mediaType: layerMediaType, bytes: layer }],
    config: { architecture: 'amd64', os: 'linux', config: { Labels: labels } },
  };
}
