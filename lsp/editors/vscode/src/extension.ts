// Tokenleap in VS Code: starts the language server, shows its state, and has commands for what it can do.
//
// Ghost text, its acceptance in parts and cycling are VS Code's own; vscode-languageclient asks the server for it.

import * as vscode from 'vscode';
import { LanguageClient, type LanguageClientOptions, type ServerOptions, TransportKind } from 'vscode-languageclient/node';

import { chosen, namesIn } from './configuration';
import { type State, shown } from './state';

const SECTION = 'tokenleap';

let client: LanguageClient | undefined;

export async function activate(context: vscode.ExtensionContext): Promise<void> {
  const item = vscode.window.createStatusBarItem('tokenleap.state', vscode.StatusBarAlignment.Right, 100);
  item.name = 'Tokenleap';
  item.command = 'tokenleap.menu';
  context.subscriptions.push(
    item,
    vscode.commands.registerCommand('tokenleap.menu', menu),
    vscode.commands.registerCommand('tokenleap.showStatistics', showStatistics),
    vscode.commands.registerCommand('tokenleap.restartServer', () => start(context, item)),
    vscode.window.onDidChangeActiveTextEditor(focus),
    vscode.workspace.onDidChangeConfiguration((event) => {
      if (event.affectsConfiguration(`${SECTION}.server`)) {
        void start(context, item);
      }
    }),
  );
  await start(context, item);
}

export async function deactivate(): Promise<void> {
  const old = client;
  client = undefined;
  if (old?.isRunning()) {
    await old.dispose(); // one that never started cannot be stopped
  }
}

async function start(context: vscode.ExtensionContext, item: vscode.StatusBarItem): Promise<void> {
  await deactivate();
  const [command, ...args] = vscode.workspace.getConfiguration(SECTION).get<string[]>('server.command', ['tokenleap', 'lsp']);
  const server: ServerOptions = { command, args, transport: TransportKind.stdio };
  const properties = context.extension.packageJSON.contributes.configuration.properties;
  const next = new LanguageClient(SECTION, 'Tokenleap', server, options(namesIn(SECTION, properties)));
  client = next;
  show(item, { busy: true, message: 'starting', kind: 'Normal' });
  next.onNotification('didChangeStatus', (state: State) => show(item, state));
  try {
    await next.start();
    focus(vscode.window.activeTextEditor);
  } catch (error) {
    const message = `the language server did not start: ${error instanceof Error ? error.message : error}`;
    show(item, { busy: false, message: `${message}; see the setting tokenleap.server.command`, kind: 'Error' });
  }
}

function options(names: string[]): LanguageClientOptions {
  const read = (scope?: vscode.Uri) => {
    const section = vscode.workspace.getConfiguration(SECTION, scope);
    return chosen(names, (name) => section.inspect(name));
  };
  return {
    documentSelector: ['file', 'untitled', 'vscode-notebook-cell'].map((scheme) => ({ scheme })),
    initializationOptions: read(),
    middleware: {
      workspace: {
        configuration: (params) =>
          params.items.map((asked) => read(asked.scopeUri ? vscode.Uri.parse(asked.scopeUri) : undefined)),
        // The server asks for them; what would be sent along holds the defaults.
        didChangeConfiguration: async () => {
          await client?.sendNotification('workspace/didChangeConfiguration', { settings: null });
        },
      },
    },
  };
}

function show(item: vscode.StatusBarItem, state: State): void {
  const { text, tooltip, severity } = shown(state);
  item.text = text;
  item.tooltip = tooltip;
  item.backgroundColor =
    severity === 'none' ? undefined : new vscode.ThemeColor(`statusBarItem.${severity}Background`);
  item.show();
}

function focus(editor: vscode.TextEditor | undefined): void {
  if (editor && client?.isRunning()) {
    void client.sendNotification('textDocument/didFocus', { textDocument: { uri: editor.document.uri.toString() } });
  }
}

async function execute(command: string, ...args: unknown[]): Promise<unknown> {
  if (!client?.isRunning()) {
    void vscode.window.showWarningMessage('Tokenleap: the language server does not run');
    return undefined;
  }
  return client.sendRequest('workspace/executeCommand', { command, arguments: args });
}

async function menu(): Promise<void> {
  const document = vscode.window.activeTextEditor?.document;
  const uri = document?.uri.toString();
  const switches = (['workspace', 'language', 'file'] as const)
    .filter((scope) => scope === 'workspace' || document)
    .flatMap((scope) => {
      const what = scope === 'workspace' ? 'this workspace' : scope === 'file' ? 'this file' : document?.languageId;
      return (['disable', 'enable'] as const).map((step) => ({
        label: `${step === 'enable' ? '$(circle-large-outline) On' : '$(circle-slash) Off'} for ${what}`,
        run: () => execute(`tokenleap.${step}`, { scope, uri }),
      }));
    });
  const picked = await vscode.window.showQuickPick(
    [
      { label: '$(question) Why was nothing suggested?', run: () => execute('tokenleap.why', ...(uri ? [uri] : [])) },
      { label: "$(info) The engine's state", run: () => execute('tokenleap.status') },
      { label: '$(graph) Statistics', run: showStatistics },
      ...switches,
      { label: '$(trash) Clear the caches', run: () => execute('tokenleap.clearCaches') },
      { label: '$(gear) Settings', run: () => vscode.commands.executeCommand('workbench.action.openSettings', SECTION) },
      { label: '$(debug-restart) Restart', run: () => vscode.commands.executeCommand('tokenleap.restartServer') },
    ],
    { title: 'Tokenleap' },
  );
  await picked?.run();
}

async function showStatistics(): Promise<void> {
  const figures = await execute('tokenleap.statistics');
  if (figures) {
    const content = `${JSON.stringify(figures, null, 2)}\n`;
    await vscode.window.showTextDocument(await vscode.workspace.openTextDocument({ language: 'json', content }));
  }
}
