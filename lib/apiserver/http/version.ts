import type { PlainRoute } from './plain.ts';

/**
 * The Kubernetes version whose API this is. kubectl warns if its own version differs by more than one minor version
 * (kubectl `skew_warning.go`), so this must be the true version.
 */
const kubernetes = { major: '1', minor: '35' };

/**
 * @param product the version of Rampart: `0.1.0`. It becomes the build part of `gitVersion` (semver.org, 10).
 */
export function versionRoute(product: string): PlainRoute {
  const body = JSON.stringify(
    {
      major: kubernetes.major,
      minor: kubernetes.minor,
      gitVersion: `v${kubernetes.major}.${kubernetes.minor}.0+rampart-${product.replaceAll(/[^0-9A-Za-z.-]/g, '-')}`,
      gitCommit: '',
      gitTreeState: '',
      buildDate: '1970-01-01T00:00:00Z',
      goVersion: '',
      compiler: '',
      platform: `${process.platform}/${process.arch === 'x64' ? 'amd64' : process.arch}`,
    },
    undefined,
    2,
  );
  const answer = { code: 200, headers: { 'content-type': 'application/json' }, body };
  return ({ path }) => (path === '/version' || path === '/version/' ? answer : undefined);
}
