// Every group of commands adds itself to the tree: one file for each group, and this list. Called
// once by app.cc. What the options are read into lives as long as the action that reads it.
#pragma once

namespace divvy::cli {

class CommandTree;

void add_submit_command(CommandTree& tree);  // with submit torch and mpi
void add_mpi_commands(CommandTree& tree);    // of their members
void add_serve_commands(CommandTree& tree);
void add_sweep_command(CommandTree& tree);
void add_schedule_commands(CommandTree& tree);
void add_templates_command(CommandTree& tree);
void add_session_commands(CommandTree& tree);  // session start, open, list, ...
void add_job_views(CommandTree& tree);         // list, get, describe, explain
void add_job_actions(CommandTree& tree);       // suspend, resume, requeue, update, delete, prune
void add_wait_command(CommandTree& tree);
void add_logs_command(CommandTree& tree);
void add_member_commands(CommandTree& tree);   // exec, attach, cp, port-forward
void add_ssh_commands(CommandTree& tree);      // ssh, ssh-config, ssh-proxy
void add_tenant_commands(CommandTree& tree);   // run, set, ps, top, slice
void add_machine_commands(CommandTree& tree);  // gpus, gpu, nodes, doctor, events, ledger, cdi
void add_nodes_command(CommandTree& tree);     // called by it
void add_queue_commands(CommandTree& tree);    // queue, quota, usage
void add_audit_command(CommandTree& tree);
void add_people_commands(CommandTree& tree);  // user, token, whoami
void add_secret_commands(CommandTree& tree);
void add_login_commands(CommandTree& tree);    // login, logout
void add_backup_commands(CommandTree& tree);   // backup, restore
void add_context_commands(CommandTree& tree);  // context, config
void add_replay_commands(CommandTree& tree);   // sim, bench
void add_page_commands(CommandTree& tree);     // completion, man, version

}  // namespace divvy::cli
