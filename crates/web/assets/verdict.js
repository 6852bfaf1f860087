// Verdict in one sentence: offender, victim, CPU time, begin, and the command that helps.
import { clock, length, make, plain, put, when } from "./format.js";

const $ = (id) => document.getElementById(id);

export const sinceText = (finding) => {
  const parts = [];
  if (finding.since)
    parts.push(
      `since ${when(new Date(finding.since))}${finding.for_s ? ` (${length(finding.for_s)})` : ""}`,
    );
  if (finding.certainty) parts.push(`${plain(finding.certainty)}: ${plain(finding.evidence)}`);
  return parts.join(" · ");
};

/** Makes the button copy a text and confirm it. */
export const copies = (button, text) =>
  button.addEventListener("click", async () => {
    let label = "Copied";
    try {
      await navigator.clipboard.writeText(text());
    } catch {
      // Plain HTTP under another name forbids copying, but the text can be selected.
      label = "Select it";
    }
    button.textContent = label;
    setTimeout(() => {
      button.textContent = "Copy";
    }, 1500);
  });

copies($("copy"), () => $("command").textContent);

export const showVerdict = (frame) => {
  const [worst, ...others] = frame.findings;
  const harm = worst && worst.cpus !== null;
  $("verdict").dataset.level = !worst ? "calm" : harm ? "harm" : "problem";
  put($("sentence"), plain(worst ? worst.sentence : frame.summary));
  put($("since"), worst ? sinceText(worst) : calm(frame));
  $("remedy").hidden = !worst?.command;
  put($("command"), plain(worst?.command ?? ""));
  put($("effect"), plain(worst?.effect ?? ""));
  const reasons = worst ? worst.reasons : [];
  if ($("reasons").dataset.shown !== reasons.join("\n")) {
    $("reasons").dataset.shown = reasons.join("\n");
    $("reasons").replaceChildren(...reasons.map((r) => make("li", {}, plain(r))));
  }
  more(others, frame.findings_total);
  observing(frame);
};

const calm = (frame) => {
  const f = frame.figures;
  if (!f.containers) return "";
  const lost =
    f.most_taken_cpus === null
      ? "losses are not diagnosed"
      : `at most ${f.most_taken_cpus.toFixed(2)} CPUs lost to others`;
  const paid = `at most ${f.most_paid_cpus.toFixed(2)} CPUs paid for others`;
  return `${paid} · ${lost} · network work ${f.caused_cpus.toFixed(2)} CPUs`;
};

const more = (others, total) => {
  const box = $("more");
  box.hidden = others.length === 0;
  if (box.hidden) return;
  put($("more-title"), `${total - 1} more ${total === 2 ? "finding" : "findings"}`);
  const text = others.map((f) => f.sentence).join("\n");
  if (box.dataset.shown === text) return;
  box.dataset.shown = text;
  const item = (f) =>
    make("li", {}, plain(f.sentence), f.command ? make("code", {}, plain(f.command)) : null);
  $("more-list").replaceChildren(...others.map(item));
};

const observing = (frame) => {
  const agent = frame.agent;
  let text = "";
  if (agent && !agent.enforced && !agent.reserved)
    text = "The agent only observes: no rule enforces or reserves anything on this host.";
  else if (agent)
    text =
      `In force: ${agent.enforced} ${agent.enforced === 1 ? "container" : "containers"} ` +
      `enforced, ` +
      `${agent.reserved} reserved, ${agent.changes_in_force} changes to the host.`;
  put($("observing"), text);
};

export const showTime = (frame) => {
  const time = new Date(frame.time);
  const element = document.getElementById("time");
  element.dateTime = frame.time;
  put(element, frame.live ? clock(time) : when(time));
};
