/**
 * Inside a guest: opens both of the sensor's objects with the capabilities that this process has, and tells what the programs
 * know a file of an overlay by.
 */
import { ChangeSensor } from '../../shared/sensor/changes/change-sensor.ts';
import { openTestSensor } from '../../shared/sensor/sensor.fixture.ts';

const [path = ''] = process.argv.slice(2);
const nothing = (): void => undefined;

using sensor = openTestSensor();
const { inode, device, generation } = sensor.identify(path);
using changes = ChangeSensor.open({
  mode: 'auto',
  onSeen: nothing,
  onBatchEnd: nothing,
  onProblem: (problem) => {
    throw problem;
  },
});
const identity = [inode, device, generation].join(' ');
process.stdout.write(`${sensor.sensor.mode} identity ${identity}; changes ${changes.mode}\n`);
