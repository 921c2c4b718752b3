// The TypeScript SDK's client: starts the server that argv names, as users do.
// Run: node typescript_client.cjs FOLDER PACKAGE COMMAND [ARGUMENT...]
const { createRequire } = require("node:module");

const [folder, name, command, ...args] = process.argv.slice(2);
const load = createRequire(`${folder}/`);
const modules = {
  "@modelcontextprotocol/sdk": ["client/index.js", "client/stdio.js"],
  "@modelcontextprotocol/client": ["", "stdio"],
}[name].map((part) => load(part ? `${name}/${part}` : name));
const { Client, StdioClientTransport } = Object.assign({}, ...modules);
const content = "The charging dock is behind the kitchen door.";

async function main() {
  const client = new Client({ name: "test", version: "1" });
  await client.connect(new StdioClientTransport({ command, args }));
  const { tools } = await client.listTools();
  const call = async (tool, given) =>
    (await client.callTool({ name: tool, arguments: given })).structuredContent;
  const stored = await call("store_memory", { content });
  const page = await call("search_memories", { query: "charging dock kitchen" });
  const status = await client.readResource({ uri: "memory://status" });
  await client.close();
  console.log(
    JSON.stringify({
      tools: tools.map((tool) => tool.name),
      stored: stored.content,
      found: page.results.map((hit) => hit.content),
      pid: JSON.parse(status.contents[0].text).pid,
    }),
  );
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
