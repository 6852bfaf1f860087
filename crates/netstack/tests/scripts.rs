//! One script a rule: see tests/scripts, and tests/support/script.rs for the language.

mod support;

macro_rules! scripts {
    ($($name:ident),* $(,)?) => {
        $(#[test]
        fn $name() {
            support::script::run(stringify!($name), include_str!(concat!("scripts/", stringify!($name), ".script")));
        })*

        /// A script that nobody runs proves nothing.
        #[test]
        fn every_script_is_run_and_names_its_rule() {
            let run = [$(stringify!($name)),*];
            let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/scripts");
            for entry in std::fs::read_dir(folder).expect("the folder") {
                let path = entry.expect("an entry").path();
                let name = path.file_stem().expect("a name").to_string_lossy().into_owned();
                assert!(run.contains(&name.as_str()), "{name} is not run");
                let text = std::fs::read_to_string(&path).expect("text");
                let first = text.lines().next().unwrap_or("");
                assert!(first.starts_with("# RFC ") || first.starts_with("# IX"), "{name}: {first}");
            }
        }
    };
}

scripts! {
    abort,
    ack_of_request_is_not_delayed,
    ack_of_the_future,
    ack_storm,
    ack_waits_for_quick_answers,
    backlog,
    challenges_are_limited,
    close_active,
    close_at_once,
    close_passive,
    close_simultaneous,
    close_with_data,
    close_with_unread_data,
    closed_port,
    data_after_close,
    data_and_piggyback,
    delayed_ack,
    duplicate_sack,
    fast_retransmit_newreno,
    fin_out_of_order,
    fin_wait_2_ends,
    half_close,
    half_close_peer,
    half_open_bad_ack,
    half_open_reset,
    idle_restart,
    initial_window,
    keepalive,
    keepalive_answered,
    limited_transmit,
    mss_default,
    nagle,
    nagle_off,
    open_active,
    open_active_v6,
    open_bad_ack,
    open_half_times_out,
    open_passive,
    open_refused,
    open_simultaneous,
    open_simultaneous_ack,
    open_times_out,
    our_window_closes,
    our_window_probed,
    overlaps,
    path_mtu,
    path_mtu_spoofed,
    path_mtu_v6,
    paws,
    reject,
    reset_exact,
    reset_in_window,
    rst_without_ack_to_listener,
    rto_after_lost_syn_ack,
    rto_backoff,
    rto_resends_all,
    sack_recovery,
    sack_sent,
    segments_of_mss,
    silly_window_sender,
    small_segments_take_buffers,
    spurious_ack_of_hole,
    syn_again,
    syn_cookie,
    syn_cookie_forged,
    syn_in_connection,
    time_wait_ignores_rst,
    time_wait_reused,
    time_wait_reused_by_number,
    timestamp_missing,
    timestamp_of_the_left_edge,
    timestamps_and_mss,
    unreachable_in_syn_sent,
    unreachable_when_open,
    urgent,
    window_scaling,
    window_scaling_refused,
    window_shrinks,
    zero_window_probe,
    zero_window_probe_taken,
    zero_window_unanswered,
}
