/** Initializes a job again and again, until it is killed: `node init-loop.fixture.ts <root> <directory> [aide]`. */
import { secretKey } from '../database/baseline.fixture.ts';
import type { IntegrityJob } from '../provider/provider.ts';
import { AideProvider } from './provider.ts';

const [root = '', directory = '', program] = process.argv.slice(2);
const job: IntegrityJob = {
  ...{ key: 'guard/example', root: { directory: root, prefix: '/hostroot' }, directory },
  conf: { name: 'aide.conf', text: '/hostroot/etc ftype+p+u+g+n+s+sha256\n' },
  ...{ signingKey: secretKey, maxBackups: 2 },
};
const { signal } = new AbortController();
const provider = new AideProvider(program === undefined ? {} : { program });
for (;;) {
  await provider.init(job, { signal });
  await provider.accept(job, ['/hostroot/etc/f-1'], { author: 'a', reason: 'r' }, { signal });
  process.stdout.write('.');
}
