// The extension with a scripted server: what it asks for, shows and sends. VS Code itself is stood in for.

import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';

import { chosen, namesIn } from '../src/configuration';
import { shown } from '../src/state';
import { CancellationTokenSource, Desk, type InlineCompletionList, Position } from './vscode';

const manifest = JSON.parse(readFileSync(join(__dirname, '..', '..', 'package.json'), 'utf8'));
const folder = mkdtempSync(join(tmpdir(), 'tokenleap-'));
const log = join(folder, 'log');
const desk = new Desk();
const context = { subscriptions: [] as { dispose(): void }[], extension: { packageJSON: manifest } };
const command = [process.execPath, join(__dirname, 'server.js'), log];
let extension: { activate(context: unknown): Promise<void>; deactivate(): Promise<void> };

interface Message {
  method: string;
  params: any;
}

function sent(method: string): any[] {
  const lines = readFileSync(log, 'utf8').split('\n').filter(Boolean);
  return lines.map((line): Message => JSON.parse(line)).filter((one) => one.method === method).map((one) => one.params);
}

/** Waits for what another process does. */
async function until<T>(what: () => T | undefined | false): Promise<T> {
  for (let tries = 0; tries < 3000; tries++) {
    const found = what();
    if (found) {
      return found;
    }
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
  throw new Error('it never came to pass');
}

before(async () => {
  desk.install();
  desk.settings = {
    'server.command': { defaultValue: ['tokenleap', 'lsp'], globalValue: command },
    max_tokens: { defaultValue: 128, globalValue: 64, workspaceValue: 32 },
    seed: { defaultValue: 0 },
  };
  desk.documents.push(desk.document('file:///tmp/none/a.py', 'python', 'x = '));
  extension = require('../src/extension');
  await extension.activate(context);
  await until(() => desk.item.tooltip === 'Tokenleap: ready');
});

after(async () => {
  await extension.deactivate();
  rmSync(folder, { recursive: true });
});

test('the server is told that ghost text can be shown, and opened documents', async () => {
  const [told] = sent('initialize');
  assert.deepEqual(told.capabilities.textDocument.inlineCompletion, { dynamicRegistration: true });
  await until(() => sent('textDocument/didOpen').length === 1);
  assert.equal(sent('textDocument/didOpen')[0].textDocument.text, 'x = ');
});

test('only settings that somebody made are sent', async () => {
  assert.deepEqual(sent('initialize')[0].initializationOptions, { max_tokens: 32 });
  assert.deepEqual(sent('answer')[0], [{ max_tokens: 32 }]);
  const before = sent('answer').length;
  desk.settings.seed.globalValue = 0;
  desk.configurationChanged.fire({ affectsConfiguration: (name: string) => name === 'tokenleap' });
  await until(() => sent('answer').length > before);
  assert.deepEqual(sent('answer').at(-1), [{ max_tokens: 32, seed: 0 }]);
});

test('a suggestion reaches the editor and its acceptance the server', async () => {
  const provider = await until(() => desk.providers[0]);
  const token = new CancellationTokenSource().token;
  const place = new Position(0, 4);
  const asked = provider.provideInlineCompletionItems(desk.documents[0], place, { triggerKind: 1 }, token);
  const [item] = ((await asked) as InlineCompletionList).items;
  assert.equal(item.insertText, 'x = done');
  const accept = item.command as { command: string; arguments: unknown[] };
  await desk.commands.get(accept.command)?.(...accept.arguments);
  assert.deepEqual(sent('workspace/executeCommand').at(-1), { command: 'tokenleap.accept', arguments: [7] });
});

test('the menu switches off and shows figures', async () => {
  desk.pick = 'Off for this workspace';
  await desk.commands.get('tokenleap.menu')?.();
  const [asked] = sent('workspace/executeCommand').slice(-1);
  assert.deepEqual(asked, { command: 'tokenleap.disable', arguments: [{ scope: 'workspace' }] });
  desk.pick = 'Statistics';
  await desk.commands.get('tokenleap.menu')?.();
  assert.deepEqual(JSON.parse(desk.opened[0].content), { shown: 3 });
});

test('a command of the manifest is there, the server’s own included', () => {
  for (const { command: name } of manifest.contributes.commands) {
    assert.ok(desk.commands.has(name) || name === 'tokenleap.clearCaches', name); // this server has no caches
  }
});

test('a server that cannot be started is said in the status bar', async () => {
  desk.settings['server.command'].globalValue = [join(folder, 'no-such-program')];
  await desk.commands.get('tokenleap.restartServer')?.();
  assert.match(String(desk.item.tooltip), /did not start.*tokenleap\.server\.command/);
  assert.equal((desk.item.backgroundColor as { id: string }).id, 'statusBarItem.errorBackground');
  desk.settings['server.command'].globalValue = command;
  await desk.commands.get('tokenleap.restartServer')?.();
  await until(() => desk.item.tooltip === 'Tokenleap: ready');
  assert.equal(desk.item.backgroundColor, undefined);
});

test('the state in the status bar', () => {
  const busy = shown({ busy: true, message: 'loading the model', kind: 'Normal' });
  assert.deepEqual(busy, { text: '$(loading~spin) Tokenleap', tooltip: 'Tokenleap: loading the model', severity: 'none' });
  assert.equal(shown({ busy: false, message: '', kind: 'Inactive' }).tooltip, 'Tokenleap: off');
  assert.equal(shown({ busy: false, message: 'm', kind: 'Error' }).severity, 'error');
});

test('settings of the extension itself are not the server’s', () => {
  const names = namesIn('tokenleap', manifest.contributes.configuration.properties);
  assert.ok(names.includes('max_tokens') && names.every((name) => !name.includes('.')));
  assert.deepEqual(chosen(['a', 'b', 'c'], (name) => ({ a: { globalValue: false }, b: { globalValue: null } })[name]), {
    a: false,
  });
});
