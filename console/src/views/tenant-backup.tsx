// Backups of a tenant: when they are made, where they go, how the last one went, and the command for one now.
import { useState } from "preact/hooks";
import { message } from "../api/http";
import { patchTenant } from "../api/tenants";
import type { KubeObject } from "../api/types";
import { Badge, Button, Dialog, Problem, copyText, toast } from "../parts/basics";
import { fullTime, visible } from "../parts/show";
import { t } from "../text";

interface Backup {
  schedule?: string;
  to?: string;
  secretName?: string;
  keep?: number;
}

interface BackupStatus {
  lastSuccessTime?: string;
  lastBackup?: string;
  lastFailureTime?: string;
  lastFailureMessage?: string;
}

export function BackupDialog({ tenant, denied, onClose }: { tenant: KubeObject; denied: string | undefined; onClose: () => void }) {
  const name = tenant.metadata.name;
  const spec = (tenant.spec ?? {}) as { backup?: Backup; backupBeforeDelete?: boolean };
  const [problem, setProblem] = useState("");
  const command = `alcove tenant backup ${name} -o ${name}.backup`;
  const save = async (event: SubmitEvent) => {
    event.preventDefault();
    const form = new FormData(event.currentTarget as HTMLFormElement);
    const field = (key: string) => String(form.get(key) ?? "").trim();
    const backup = field("to") ? { schedule: field("schedule") || null, to: field("to"), secretName: field("secretName") || null, keep: field("keep") ? Number(field("keep")) : null } : null;
    try {
      await patchTenant(name, { spec: { backup, backupBeforeDelete: form.get("beforeDelete") ? true : null } });
      toast(t().saved);
      onClose();
    } catch (error) {
      setProblem(message(error));
    }
  };
  return (
    <Dialog title={`${t().backup}: ${visible(name)}`} onClose={onClose}>
      <LastBackup status={(tenant.status?.["backup"] ?? {}) as BackupStatus} />
      <h3>{t().backupNow}</h3>
      <p class="command-line">
        <code>{visible(command)}</code>
        <Button kind="quiet" onClick={() => copyText(command)}>
          {t().copy}
        </Button>
      </p>
      <h3>{t().backupSchedule}</h3>
      <form onSubmit={(event) => void save(event)}>
        <div class="two">
          <label class="field">
            {t().backupTo}
            <input name="to" placeholder="s3://BUCKET/PREFIX" value={spec.backup?.to ?? ""} autocomplete="off" spellcheck={false} />
          </label>
          <label class="field">
            {t().schedule} <span class="fine">cron</span>
            <input name="schedule" placeholder="0 3 * * *" value={spec.backup?.schedule ?? ""} autocomplete="off" spellcheck={false} />
          </label>
          <label class="field">
            {t().backupSecret} <span class="fine">{t().optional}</span>
            <input name="secretName" value={spec.backup?.secretName ?? ""} autocomplete="off" spellcheck={false} />
          </label>
          <label class="field">
            {t().backupKeep} <span class="fine">{t().optional}</span>
            <input name="keep" type="number" min="1" max="1000" placeholder="7" value={spec.backup?.keep ?? ""} />
          </label>
        </div>
        <label class="check">
          <input type="checkbox" name="beforeDelete" checked={!!spec.backupBeforeDelete} /> {t().backupBeforeDelete}
        </label>
        {problem && <Problem text={problem} />}
        {denied && <p class="fine">{denied}</p>}
        <footer>
          <Button onClick={onClose}>{t().cancel}</Button>
          <button type="submit" class="primary" disabled={!!denied}>
            {t().save}
          </button>
        </footer>
      </form>
    </Dialog>
  );
}

function LastBackup({ status }: { status: BackupStatus }) {
  const { lastSuccessTime, lastFailureTime } = status;
  if (!lastSuccessTime && !lastFailureTime) return <p class="fine">{t().noBackup}</p>;
  return (
    <dl class="facts">
      {lastSuccessTime && (
        <div>
          <dt>
            <Badge text={t().lastBackup} kind="good" />
          </dt>
          <dd>
            {fullTime(lastSuccessTime)} {visible(status.lastBackup)}
          </dd>
        </div>
      )}
      {lastFailureTime && (
        <div>
          <dt>
            <Badge text={t().failedBackup} kind="bad" />
          </dt>
          <dd>
            {fullTime(lastFailureTime)} {visible(status.lastFailureMessage)}
          </dd>
        </div>
      )}
    </dl>
  );
}
