/**
 * The checkout for processes without root's capabilities. The checkout itself may be below a home directory with mode 0700,
 * belong to another user, or be written under umask 077: they see it elsewhere, and readable.
 */
import { join } from 'node:path';

const top = join(import.meta.dirname, '../..');
/**
 * A directory that exists everywhere, everyone may enter, and no test uses: only the command sees what is
 * mounted there.
 */
const place = '/media';

/**
 * An overlay, so that modes change without a copy (`metacopy`) and without a change of the checkout.
 * `lowerdir=.` because a path may have a character that separates options. No test reads the pruned
 * directories, more than half of all files. The rest is searched below the overlay: through it, that takes two seconds of CPU time.
 * Other tests may be unpacking a package into .cache meanwhile, so files that disappear are not an error.
 */
const script = `
cd "$1"
shift
mount -t tmpfs -o mode=755 none ${place}
mkdir ${place}/upper ${place}/work ${place}/checkout
find . -ignore_readdir_race '(' -path ./.git -o -path ./node_modules/.cache -o -path ./node_modules/@kubernetes \
  -o -path './node_modules/node-linux-*/include' ')' -prune \
  -o ! -type l ! -perm -o=r -print0 > ${place}/closed
mount -t overlay -o metacopy=on,lowerdir=.,upperdir=${place}/upper,workdir=${place}/work none ${place}/checkout
cd ${place}/checkout
xargs -0 -r chmod -f a+rX < ${place}/closed || :
exec "$@"
`;

/**
 * Put before a command that has a mount namespace of its own: makes the checkout readable where {@link publicPath} says, and
 * starts the command in its top. The mounts stay for as long as the namespace does.
 */
export const mountPublicCheckout: readonly string[] = ['sh', '-euc', script, 'sh', top];

/** Put before a command, with which the command finds the checkout where {@link publicPath} says. It starts in its top. */
export const withPublicCheckout: readonly string[] = ['unshare', '--mount', ...mountPublicCheckout];

export const NOBODY = 65_534;

/** Prefix of a command that runs as another user, without any capability. */
export const asNobody: readonly string[] = [
  ...withPublicCheckout,
  ...['setpriv', `--reuid=${NOBODY}`, `--regid=${NOBODY}`, '--clear-groups'],
];

/**
 * The place of `path` of the checkout for a command with {@link withPublicCheckout}; other words are
 * unchanged.
 */
export function publicPath(path: string): string {
  return path === top || path.startsWith(`${top}/`) ? `${place}/checkout${path.slice(top.length)}` : path;
}
