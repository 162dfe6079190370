// A language server that answers by rules, and writes all it is sent to the file named by its last argument.

import { appendFileSync } from 'node:fs';
import { createMessageConnection, StreamMessageReader, StreamMessageWriter } from 'vscode-languageserver-protocol/node';

const log = process.argv[2];
const connection = createMessageConnection(
  new StreamMessageReader(process.stdin),
  new StreamMessageWriter(process.stdout),
);
const note = (method: string, params: unknown) => appendFileSync(log, `${JSON.stringify({ method, params })}\n`);

connection.onRequest((method, params) => {
  note(method, params);
  if (method === 'initialize') {
    return {
      capabilities: {
        positionEncoding: 'utf-16',
        textDocumentSync: { openClose: true, change: 2 },
        executeCommandProvider: { commands: ['tokenleap.accept', 'tokenleap.why', 'tokenleap.status'] },
      },
      serverInfo: { name: 'tokenleap' },
    };
  }
  if (method === 'textDocument/inlineCompletion') {
    const { line, character } = (params as { position: { line: number; character: number } }).position;
    const range = { start: { line, character: 0 }, end: { line, character } };
    const command = { title: 'Accept', command: 'tokenleap.accept', arguments: [7] };
    return { items: [{ insertText: 'x = done', range, command }] };
  }
  return method === 'workspace/executeCommand' ? { shown: 3 } : null;
});

connection.onNotification((method, params) => {
  note(method, params);
  if (method === 'initialized') {
    void begin();
  }
  if (method === 'workspace/didChangeConfiguration') {
    void ask();
  }
  if (method === 'exit') {
    process.exit(0);
  }
});

async function begin(): Promise<void> {
  const register = (id: string, method: string, registerOptions: object) =>
    connection.sendRequest('client/registerCapability', { registrations: [{ id, method, registerOptions }] });
  await register('1', 'workspace/didChangeConfiguration', { section: 'tokenleap' });
  await register('2', 'textDocument/inlineCompletion', { documentSelector: null });
  await ask();
  await connection.sendNotification('didChangeStatus', { busy: false, message: '', kind: 'Normal' });
}

async function ask(): Promise<void> {
  note('answer', await connection.sendRequest('workspace/configuration', { items: [{ section: 'tokenleap' }] }));
}

connection.onClose(() => process.exit(0));
connection.listen();
