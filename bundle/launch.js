// Runs the installed `memoryd mcp` for Claude Desktop, which starts this with its own Node.
// Desktop programs often lack the PATH of a shell, so the usual folders are looked at too.
"use strict";

const { spawn } = require("node:child_process");
const { accessSync, constants, statSync } = require("node:fs");
const { homedir } = require("node:os");
const { delimiter, join } = require("node:path");

function runs(file) {
  try {
    accessSync(file, constants.X_OK);
    return statSync(file).isFile();
  } catch {
    return false;
  }
}

// The chosen command; without one, the first that is found.
function command() {
  const chosen = process.env.BUNDLE_COMMAND || "";
  if (chosen && !chosen.startsWith("${")) return chosen; // a setting without a value stays as it is written
  const folders = (process.env.PATH || "").split(delimiter).filter(Boolean);
  folders.push(join(homedir(), ".local", "bin"), "/opt/homebrew/bin", "/usr/local/bin");
  return folders.map((folder) => join(folder, "memoryd")).find(runs);
}

function fail(sentence) {
  process.stderr.write(
    `Error: ${sentence}\n` +
      "Try: install memoryd (pipx install or uv tool install), or name its command in the settings of this extension.\n",
  );
  process.exit(1);
}

const found = command();
if (!found) fail("The command memoryd was not found.");

// Piped, not inherited: a host may put streams of its own in the place of stdin and stdout.
const child = spawn(found, ["mcp"], { stdio: ["pipe", "pipe", "inherit"] });
child.on("error", (error) => fail(`${found} cannot be started: ${error.message}.`));
child.on("close", (code) => process.exit(code === null ? 1 : code));
child.stdin.on("error", () => {}); // it has ended; "close" follows
process.stdin.pipe(child.stdin);
child.stdout.pipe(process.stdout);
for (const signal of ["SIGINT", "SIGTERM"]) process.on(signal, () => child.kill(signal));
