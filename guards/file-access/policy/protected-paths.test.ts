import assert from 'node:assert/strict';
import { suite, test } from 'node:test';

import { userOf } from './protected-paths.ts';

suite('paths at which nothing is created', () => {
  for (const [user, ...paths] of [
    [
      'the dynamic linker',
      ...['/etc/ld.so.preload', '/etc/ld.so.conf', '/etc/ld.so.conf.d/x.conf', '/etc/ld.so.cache'],
      ...[
        '/etc/ld-musl-x86_64.path',
        '/lib/x.so',
        '/lib64/a/b/c.so',
        '/usr/lib/x',
        '/usr/local/lib/python3/x.py',
      ],
    ],
    ['command lookup', '/bin/sh', '/usr/bin/x', '/usr/local/sbin/ps'],
    [
      'shells',
      ...['/etc/profile', '/etc/profile.d/x.sh', '/etc/bash.bashrc', '/root/.bashrc', '/home/a/.profile'],
      ...['/.bash_login', '/srv/app/.zshenv', '/etc/inputrc', '/root/.config/fish/config.fish'],
    ],
    [
      'logins',
      ...['/etc/passwd', '/etc/shadow', '/etc/group', '/etc/gshadow-', '/etc/sudoers', '/etc/sudoers.d/x'],
      ...['/etc/pam.d/su', '/etc/security/limits.conf', '/etc/environment', '/etc/nologin', '/run/nologin'],
      ...['/root/.ssh/authorized_keys', '/keys/authorized_keys2', '/root/.ssh/rc', '/home/a/.ssh/config'],
    ],
    [
      'the system',
      ...[
        '/etc/perl/strict.pm',
        '/etc/update-motd.d/99-x',
        '/etc/apt/apt.conf.d/99x',
        '/etc/network/if-up.d/x',
      ],
      ...['/etc/NetworkManager/dispatcher.d/x', '/etc/logrotate.d/x', '/etc/kernel/postinst.d/x'],
    ],
    ['cron', '/etc/crontab', '/etc/cron.d/x', '/etc/cron.daily/x', '/var/spool/cron/crontabs/root'],
    [
      'the init system',
      '/etc/rc.local',
      '/etc/init.d/x',
      '/etc/systemd/system/x.service',
      '/etc/modprobe.d/x',
    ],
    ['name resolution', '/etc/nsswitch.conf', '/etc/hosts', '/etc/resolv.conf'],
    ['git', '/etc/gitconfig', '/root/.gitconfig', '/root/.config/git/config'],
  ]) {
    test(user ?? '', () => {
      for (const path of paths) {
        for (const spelling of [path, path.toUpperCase(), path.replaceAll('/', '//')]) {
          assert.equal(userOf(spelling), user, spelling);
        }
      }
    });
  }

  test('decoys are created elsewhere', () => {
    for (const path of [
      ...[
        '/secret.txt',
        '/etc/secret',
        '/etc/passwd.bak',
        '/etc/shadow.old',
        '/etc/app/passwd',
        '/etc/nginx/nginx.conf',
        '/etc/shadowed/x',
      ],
      ...['/run/secrets/koney/service_token', '/root/.ssh/id_rsa', '/root/.aws/credentials', '/root/.netrc'],
      ...[
        '/usr/share/nginx/html/x',
        '/var/lib/app/bin/x',
        '/data/lib/x',
        '/library/x',
        '/binary',
        '/opt/lib/x',
      ],
    ]) {
      assert.equal(userOf(path), undefined, path);
    }
  });
});
