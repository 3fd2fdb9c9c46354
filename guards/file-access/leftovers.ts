/** What this guard leaves behind. Its sensor pins nothing: the kernel has nothing of it once the agent has ended. */
import { defineLeftovers } from '../../guard/leftovers.ts';
import { namespaces } from '../../lib/kube/object/object.ts';
import { kiveDataNamespace, kiveDataType, kivePolicyType } from './api.ts';
import { dataHolds, policyHolds } from './kive-data.ts';

export const fileAccessLeftovers = defineLeftovers({
  finalizers: [
    { type: kivePolicyType, finalizers: policyHolds },
    { type: kiveDataType, finalizers: dataHolds },
  ],
  objects: [{ type: kiveDataType }],
  namespaces: [
    {
      type: namespaces,
      fieldSelector: `metadata.name=${kiveDataNamespace}`,
      labelSelector: 'app.kubernetes.io/managed-by=rampart',
    },
  ],
});
