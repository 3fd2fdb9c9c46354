/**
 * Of the core group, what limits and stores: volumes, their claims, quotas and limits. Nothing here acts on them.
 */
import type { Resource, Strategy } from '../../resources/resource.ts';
import type { JsonObject } from '../../schema/json.ts';
import { plainColumns, storedColumns } from '../columns/column.ts';
import { kindOf } from '../kind.ts';
import { statusOf } from '../subresources.ts';

const group = '';
const status = (kind: string) => statusOf({ group, kind });
const plain: Strategy = { nameRule: 'dns-subdomain', generation: 'none', resetFields: [] };
const withStatus: Strategy = { ...plain, resetFields: ['status'] };

/** The state in which a controller finds a new object. */
function startPending(object: JsonObject): void {
  object['status'] = { phase: 'Pending' };
}

const volumes = kindOf({
  group,
  kind: 'PersistentVolume',
  plural: 'persistentvolumes',
  shortNames: ['pv'],
  namespaced: false,
  columns: storedColumns,
  subresources: [status('PersistentVolume')],
  strategy: { ...withStatus, prepareForCreate: startPending },
});

const claims = kindOf({
  group,
  kind: 'PersistentVolumeClaim',
  plural: 'persistentvolumeclaims',
  shortNames: ['pvc'],
  namespaced: true,
  columns: storedColumns,
  subresources: [status('PersistentVolumeClaim')],
  strategy: { ...withStatus, prepareForCreate: startPending },
});

const limitRanges = kindOf({
  group,
  kind: 'LimitRange',
  plural: 'limitranges',
  shortNames: ['limits'],
  namespaced: true,
  columns: plainColumns,
  strategy: plain,
});

const quotas = kindOf({
  group,
  kind: 'ResourceQuota',
  plural: 'resourcequotas',
  shortNames: ['quota'],
  namespaced: true,
  columns: storedColumns,
  subresources: [status('ResourceQuota')],
  strategy: {
    ...withStatus,
    prepareForCreate: (quota) => {
      quota['status'] = {};
    },
  },
});

export const storageKinds: readonly (readonly Resource[])[] = [[limitRanges], [claims], [volumes], [quotas]];
