/** A freplace program, which can only be loaded against another program. */
import { Descriptor, instructions, loadBtf, loadProgram, type Outcome } from '../bpf-call.ts';
import { btfOf } from '../kernel-types.ts';

const BPF_PROG_TYPE_XDP = 6;
const BPF_PROG_TYPE_EXT = 28;
const XDP_PASS = 2;

/**
 * Loads an XDP program and a freplace program of the same signature for it. The target is closed
 * here: the extension holds on to it.
 *
 * @returns the freplace program, which the caller disposes, or the first refusal on the way.
 */
export function loadExtension(): Outcome {
  const btf = loadBtf(extensionBtf());
  if (!(btf instanceof Descriptor)) return btf;
  using descriptor = btf;
  const common = {
    instructions: [instructions.setRegister(0, XDP_PASS), instructions.exit()],
    btf: { descriptor, functionId: extensionFunctionId },
  };
  const target = loadProgram({ type: BPF_PROG_TYPE_XDP, ...common });
  if (!(target instanceof Descriptor)) return target;
  using attachProgram = target;
  return loadProgram({ type: BPF_PROG_TYPE_EXT, ...common, attachProgram, attachBtfId: extensionFunctionId });
}

const extensionFunctionId = 5;

/** BTF of `int f(struct xdp_md *ctx)` (Documentation/bpf/btf.rst): five types and their names. */
function extensionBtf(): Uint8Array {
  const strings = Buffer.from('\0int\0xdp_md\0ctx\0f\0');
  const nameOf = (name: string) => strings.indexOf(`\0${name}\0`) + 1;
  const kind = { INT: 1 << 24, PTR: 2 << 24, STRUCT: 4 << 24, FUNC: 12 << 24, FUNC_PROTO: 13 << 24 };
  const signed32 = (1 << 24) | 32;
  const globalLinkage = 1;
  const types = new Uint32Array(
    [
      [nameOf('int'), kind.INT, 4, signed32],
      [nameOf('xdp_md'), kind.STRUCT, 0],
      [0, kind.PTR, 2],
      [0, kind.FUNC_PROTO | 1, 1, nameOf('ctx'), 3],
      [nameOf('f'), kind.FUNC | globalLinkage, 4],
    ].flat(),
  );
  return btfOf([Buffer.from(types.buffer)], [strings]);
}
