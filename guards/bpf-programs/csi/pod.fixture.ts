/** A process in a pod that uses the maps of a volume: it opens them by their paths. */
import { bpf, command, Descriptor, nulTerminated, Structure } from '../../../lib/ebpf/bpf-call.ts';
import { errno, libbpf } from '../../../lib/ebpf/ffi.ts';
import { errnoName } from '../../../lib/ebpf/libc.ts';
import { mapInfo } from '../kernel/info.ts';

const BPF_F_RDONLY = 1 << 3;

function open(path: string, flags: number): Descriptor {
  const outcome = bpf(command.OBJ_GET, new Structure(16).pointer(0, nulTerminated(path)).u32(12, flags));
  if (outcome instanceof Descriptor) return outcome;
  throw new Error(`cannot open ${path}: ${errnoName(outcome.errno)}`);
}

/** The first u64. */
export function read(path: string): number {
  using map = open(path, BPF_F_RDONLY);
  const value = Buffer.alloc(8);
  if (libbpf().mapLookup(map.fd, new Uint8Array(4), value) !== 0) throw new Error(errnoName(errno()));
  return Number(value.readBigUInt64LE());
}

export function idOf(path: string): number {
  using map = open(path, BPF_F_RDONLY);
  return mapInfo(map.fd).id;
}

/**
 * The same from another process, by perl, which Debian always has: emulated, the start of Node.js takes longer than all else in a test. Arguments of `podProgram`: `read`, `write` or `id`, the
 * path, and the value to write. bpf(2) is 321 on x86_64 and 280 on arm64; BPF_OBJ_GET is 7, BPF_MAP_LOOKUP_ELEM 1, BPF_MAP_UPDATE_ELEM 2 and
 * BPF_OBJ_GET_INFO_BY_FD 15.
 */
const program = `
my ($do, $path, $to) = @ARGV;
my $number = ${process.arch === 'arm64' ? 280 : 321};
sub address { unpack('Q', pack('P', $_[0])) }
sub fail { my ($name) = grep { $!{$_} } keys %!; die "cannot $do $path: $name\\n" }
my $name = "$path\\0";
my $attributes = pack('Q L L', address($name), 0, $do eq 'write' ? 0 : 8);
my $fd = syscall($number, 7, $attributes, 16);
fail() if $fd < 0;
my ($key, $value) = ("\\0" x 4, pack('Q', $to // 0));
if ($do eq 'id') {
  my $info = "\\0" x 88;
  $attributes = pack('L L Q', $fd, 88, address($info));
  fail() if syscall($number, 15, $attributes, 16) < 0;
  print unpack('x4 L', $info), "\\n";
} else {
  $attributes = pack('L x4 Q Q Q', $fd, address($key), address($value), 0);
  fail() if syscall($number, $do eq 'write' ? 2 : 1, $attributes, 32) < 0;
  print unpack('Q', $value), "\\n";
}`;

export const podProgram: readonly string[] = ['-MErrno', '-e', program];
