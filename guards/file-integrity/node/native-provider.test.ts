import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { providerSuite } from '../provider/provider.suite.fixture.ts';
import { NativeProvider } from './native-provider.ts';

// A second thread takes longer to start than to read so few files.
providerSuite(() => new NativeProvider({ version: '0.0.0', workers: 1 }), {
  baseline: ({ directory }) => join(directory, 'baseline'),
  backups: ({ directory }) =>
    readdirSync(directory)
      .filter((name) => name.startsWith('baseline.backup-'))
      .sort()
      .map((name) => join(directory, name)),
});
