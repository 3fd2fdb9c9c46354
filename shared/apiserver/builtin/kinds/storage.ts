/**
 * Of the core group, what limits and stores: volumes, their claims, quotas and limits. Nothing here acts on them.
 *
 * @module
 */
import type { Resource, Strategy } from '../../resources/resource.ts';
import type { JsonObject } from '../../schema/json.ts';
import { claimColumns, quotaColumns, volumeColumns } from '../columns/cluster.ts';
import { plainColumns } from '../columns/column.ts';
import { defaultLimitRange } from '../defaults/config.ts';
import { kindOf } from '../kind.ts';
import { statusOf } from '../subresources.ts';

const group = '';
const status = (kind: string) => statusOf({ group, kind });
const plain: Strategy = { nameRule: 'dns-subdomain', generation: 'none', resetFields: [] };
const withStatus: Strategy = { ...plain, resetFields: ['status'] };

/** The state in which a controller finds a new object. */
function startAt(phase: string) {
  return (object: JsonObject): void => {
    object['status'] = { phase };
  };
}

const volumes = kindOf({
  group,
  kind: 'PersistentVolume',
  plural: 'persistentvolumes',
  shortNames: ['pv'],
  namespaced: false,
  definition: 'core.PersistentVolume',
  columns: volumeColumns,
  subresources: [status('PersistentVolume')],
  strategy: { ...withStatus, prepareForCreate: startAt('Pending') },
});

const claims = kindOf({
  group,
  kind: 'PersistentVolumeClaim',
  plural: 'persistentvolumeclaims',
  shortNames: ['pvc'],
  namespaced: true,
  definition: 'core.PersistentVolumeClaim',
  columns: claimColumns,
  subresources: [status('PersistentVolumeClaim')],
  strategy: { ...withStatus, prepareForCreate: startAt('Pending') },
});

const limitRanges = kindOf({
  group,
  kind: 'LimitRange',
  plural: 'limitranges',
  shortNames: ['limits'],
  namespaced: true,
  definition: 'core.LimitRange',
  columns: plainColumns,
  strategy: {
    ...plain,
    prepareForCreate: defaultLimitRange,
    prepareForUpdate: defaultLimitRange,
  },
});

const quotas = kindOf({
  group,
  kind: 'ResourceQuota',
  plural: 'resourcequotas',
  shortNames: ['quota'],
  namespaced: true,
  definition: 'core.ResourceQuota',
  columns: quotaColumns,
  subresources: [status('ResourceQuota')],
  strategy: {
    ...withStatus,
    prepareForCreate: (quota) => {
      quota['status'] = {};
    },
  },
});

export const storageKinds: readonly (readonly Resource[])[] = [[limitRanges], [claims], [volumes], [quotas]];
