/**
 * The files that the demo's third part guards, in a directory that stands for the root of a machine; and who changes them.
 */
import { chmodSync, mkdirSync, realpathSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

import { find } from './commands.ts';
import { asNobody, NOBODY } from './steps.ts';

/** Below the demo's directory. */
export const hostDirectory = 'host';
export const manifestFile = 'integrity.yaml';
/** The name of the Node object. */
export const nodeName = 'machine';
export const namespace = 'openshift-file-integrity';
/** Name of the FileIntegrity. */
export const integrityName = 'demo';

/** As people have it for the File Integrity Operator. The next scan is an hour away: what is seen here is not found by it. */
export const manifest = `apiVersion: v1
kind: Namespace
metadata: { name: ${namespace} }
---
apiVersion: v1
kind: ConfigMap
metadata: { name: demo-aide-conf, namespace: ${namespace} }
data:
  aide.conf: |
    CONTENT = ftype+p+u+g+s+sha256
    /etc CONTENT
    /usr/bin CONTENT
    !/etc/mtab$
---
apiVersion: fileintegrity.openshift.io/v1alpha1
kind: FileIntegrity
metadata: { name: ${integrityName}, namespace: ${namespace} }
spec:
  config: { name: demo-aide-conf, namespace: ${namespace}, key: aide.conf, gracePeriod: 3600 }
`;

/** Makes the files in `directory`, which is there and empty. */
export function createHost(directory: string): void {
  const write = (name: string, text: string, mode: number): void => {
    writeFileSync(join(directory, name), text);
    chmodSync(join(directory, name), mode); // whatever the umask is
  };
  for (const name of ['etc', 'usr/bin']) mkdirSync(join(directory, hostDirectory, name), { recursive: true });
  // A world-writable file is the mistake that the attack uses.
  write(`${hostDirectory}/etc/passwd`, 'root:x:0:0:root:/root:/bin/sh\n', 0o666);
  write(`${hostDirectory}/etc/hostname`, `${nodeName}\n`, 0o644);
  write(`${hostDirectory}/etc/mtab`, '', 0o644);
  write(`${hostDirectory}/usr/bin/tool`, '#!/bin/sh\necho tool\n', 0o755);
  write('tool.new', '#!/bin/sh\necho another tool\n', 0o755);
  write('tamper.sh', `#!/bin/sh\necho 'eve::0:0::/:/bin/sh' >> ${hostDirectory}/etc/passwd\n`, 0o755);
  write(manifestFile, manifest, 0o644);
}

export interface Tampering {
  /** As it is shown. */
  readonly shown: string;
  readonly prompt: string;
  readonly command: readonly string[];
  /** The changed path, on the host. */
  readonly path: string;
  /** The process that does it. */
  readonly author: { readonly binary: string; readonly arguments: string; readonly uid: number };
}

export function tamperings(): readonly Tampering[] {
  const replace = ['-f', 'tool.new', `${hostDirectory}/usr/bin/tool`] as const;
  return [
    {
      shown: './tamper.sh',
      prompt: `uid ${NOBODY} $`,
      command: [...asNobody, './tamper.sh'],
      path: '/etc/passwd',
      // The kernel runs the interpreter, with the script as its argument (execve(2)).
      author: { binary: realpathSync('/bin/sh'), arguments: './tamper.sh', uid: NOBODY },
    },
    {
      shown: ['mv', ...replace].join(' '),
      prompt: '#',
      command: ['mv', ...replace],
      path: '/usr/bin/tool',
      author: { binary: realpathSync(find('mv')), arguments: replace.join(' '), uid: 0 },
    },
  ];
}
