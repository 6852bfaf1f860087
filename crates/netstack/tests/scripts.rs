//! Scripts in tests/scripts, one for each rule. tests/support/script.rs describes their language.

mod support;

macro_rules! scripts {
    ($($(#[$about:meta])* fn $name:ident();)*) => {
        $($(#[$about])*
        #[test]
        fn $name() {
            let text = include_str!(concat!("scripts/", stringify!($name), ".script"));
            support::script::run(stringify!($name), text);
        })*

        /// A script that is not run would prove nothing.
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
                let is_rule = first.starts_with("# RFC ") || first.starts_with("# IX");
                assert!(is_rule, "{name}: {first}");
            }
        }
    };
}

scripts! {
    /// Promise 57.
    fn abort();
    /// Promise 59.
    fn ack_of_a_burst();
    /// Promise 59.
    fn ack_of_request_is_not_delayed();
    /// Promise 60.
    fn ack_of_the_future();
    /// Promise 60.
    fn ack_storm();
    /// Promise 59.
    fn ack_waits_for_quick_answers();
    /// Promise 57.
    fn backlog();
    /// Promise 59.
    fn black_hole();
    /// Promise 59.
    fn black_hole_not_of_small_data();
    /// Promise 59.
    fn black_hole_v6();
    /// Promise 60.
    fn challenges_are_limited();
    /// Promise 57.
    fn close_active();
    /// Promise 57.
    fn close_at_once();
    /// Promise 57.
    fn close_passive();
    /// Promise 57.
    fn close_simultaneous();
    /// Promise 57.
    fn close_with_data();
    /// Promise 57.
    fn close_with_unread_data();
    /// Promise 57.
    fn closed_port();
    /// Promise 59.
    fn connection_options();
    /// Promise 57.
    fn data_after_close();
    /// Promise 59.
    fn data_and_piggyback();
    /// Promise 59.
    fn delayed_ack();
    /// Promise 58.
    fn duplicate_sack();
    /// Promise 58.
    fn duplicate_sack_in_part();
    /// Promise 58.
    fn duplicate_sack_of_a_block();
    /// Promise 58.
    fn duplicate_sack_within_a_block();
    /// Promise 58.
    fn ecn_not_agreed();
    /// Promise 58.
    fn ecn_open_active();
    /// Promise 58.
    fn ecn_open_active_refused();
    /// Promise 58.
    fn ecn_receiver();
    /// Promise 58.
    fn ecn_sender();
    /// Promise 58.
    fn ecn_syn_lost();
    /// Promise 58.
    fn ecn_v6();
    /// Promise 57.
    fn fast_open();
    /// Promise 57.
    fn fast_open_answer_lost();
    /// Promise 57.
    fn fast_open_bad_cookie();
    /// Promise 57.
    fn fast_open_client();
    /// Promise 57.
    fn fast_open_client_in_part();
    /// Promise 57.
    fn fast_open_client_lost();
    /// Promise 57.
    fn fast_open_client_refused();
    /// Promise 57.
    fn fast_open_closed_early();
    /// Promise 57.
    fn fast_open_off();
    /// Promise 57.
    fn fast_open_path_mtu();
    /// Promise 57.
    fn fast_open_pending();
    /// Promise 57.
    fn fast_open_reset();
    /// Promise 58.
    fn fast_retransmit_newreno();
    /// Promise 57.
    fn fast_open_unreachable();
    /// Promise 57.
    fn fin_out_of_order();
    /// Promise 57.
    fn fin_wait_2_ends();
    /// Promise 57.
    fn half_close();
    /// Promise 57.
    fn half_close_peer();
    /// Promise 57.
    fn half_open_bad_ack();
    /// Promise 57.
    fn half_open_reset();
    /// Promise 57.
    fn half_open_unreachable();
    /// Promise 58.
    fn idle_restart();
    /// Promise 58.
    fn initial_window();
    /// Promise 70.
    fn invited_by_the_peers_window();
    /// Promise 59.
    fn keepalive();
    /// Promise 59.
    fn keepalive_answered();
    /// Promise 60.
    fn keepalive_not_answered_by_refused_segment();
    /// Promise 58.
    fn limited_transmit();
    /// Promise 57.
    fn listener_fin();
    /// Promise 59.
    fn mss_default();
    /// Promise 59.
    fn nagle();
    /// Promise 59.
    fn nagle_after_full();
    /// Promise 59.
    fn nagle_off();
    /// Promise 60.
    fn no_ack_is_dropped();
    /// Promise 57.
    fn open_active();
    /// Promise 57.
    fn open_active_v6();
    /// Promise 57.
    fn open_bad_ack();
    /// Promise 57.
    fn open_half_times_out();
    /// Promise 57.
    fn open_passive();
    /// Promise 57.
    fn open_refused();
    /// Promise 57.
    fn open_simultaneous();
    /// Promise 57.
    fn open_simultaneous_ack();
    /// Promise 57.
    fn open_strange_echo();
    /// Promise 57.
    fn open_times_out();
    /// Promise 59.
    fn our_window_closes();
    /// Promise 59.
    fn our_window_probed();
    /// Promise 60.
    fn overlaps();
    /// Promise 59.
    fn path_mtu();
    /// Promise 60.
    fn path_mtu_spoofed();
    /// Promise 59.
    fn path_mtu_v6();
    /// Promise 59.
    fn path_probe();
    /// Promise 59.
    fn paws();
    /// Promise 58.
    fn prr_no_burst();
    /// Promise 59.
    fn quick_acks();
    /// Promise 58.
    fn rack_more_patient();
    /// Promise 58.
    fn rack_reordering_seen();
    /// Promise 58.
    fn rack_waits_for_reordering();
    /// Promise 70.
    fn reader_stopped();
    /// Promise 57.
    fn reject();
    /// Promise 57.
    fn reset_exact();
    /// Promise 60.
    fn reset_in_window();
    /// Promise 59.
    fn reset_with_timestamps();
    /// Promise 58.
    fn retransmission_lost();
    /// Promise 57.
    fn rst_without_ack_to_listener();
    /// Promise 57.
    fn rto_after_lost_syn_ack();
    /// Promise 58.
    fn rto_backoff();
    /// Promise 58.
    fn rto_resends_all();
    /// Promise 58.
    fn sack_most_recent_first();
    /// Promise 58.
    fn sack_recovery();
    /// Promise 58.
    fn sack_sent();
    /// Promise 59.
    fn segment_bytes();
    /// Promise 51.
    /// Promise 59.
    fn segments_of_mss();
    /// Promise 59.
    fn silly_window_sender();
    /// Promise 58.
    fn slow_start_by_use();
    /// Promise 58.
    fn slow_start_stretched_ack();
    /// Promise 58.
    fn slow_start_unused();
    /// Promise 58.
    fn small_segments_lost();
    /// Promise 59.
    fn small_segments_take_buffers();
    /// Promise 58.
    fn spurious_ack_of_hole();
    /// Promise 57.
    fn syn_ack_data();
    /// Promise 57.
    fn syn_again();
    /// Promise 57.
    fn syn_cookie();
    /// Promise 57.
    fn syn_cookie_forged();
    /// Promise 60.
    fn syn_in_connection();
    /// Promise 58.
    fn tail_probe();
    /// Promise 58.
    fn tail_probe_finds_the_rest_lost();
    /// Promise 58.
    fn tail_probe_in_recovery();
    /// Promise 58.
    fn tail_probe_in_vain();
    /// Promise 58.
    fn tail_probe_mends_one_loss();
    /// Promise 58.
    fn tail_probe_not_without_sack();
    /// Promise 58.
    fn tail_probe_of_new_data();
    /// Promise 58.
    fn tail_probe_of_one_segment();
    /// Promise 60.
    fn time_wait_challenges();
    /// Promise 57.
    fn time_wait_ignores_rst();
    /// Promise 57.
    fn time_wait_reused();
    /// Promise 57.
    fn time_wait_reused_by_number();
    /// Promise 59.
    fn timestamp_may_be_missing();
    /// Promise 59.
    fn timestamp_missing();
    /// Promise 60.
    fn timestamp_not_from_bad_handshake();
    /// Promise 60.
    fn timestamp_not_from_refused_segment();
    /// Promise 59.
    fn timestamp_of_the_left_edge();
    /// Promise 59.
    fn timestamps_and_mss();
    /// Promise 60.
    fn unreachable_and_answered();
    /// Promise 60.
    fn unreachable_and_silent();
    /// Promise 60.
    fn unreachable_in_syn_sent();
    /// Promise 60.
    fn unreachable_of_what_is_not_sent();
    /// Promise 60.
    fn unreachable_when_open();
    /// Promise 59.
    fn urgent();
    /// Promise 59.
    fn urgent_sent();
    /// Promise 59.
    fn user_timeout();
    /// Promise 58.
    fn window_counts_sacked_once();
    /// Promise 57.
    fn window_scaling();
    /// Promise 57.
    fn window_scaling_refused();
    /// Promise 59.
    fn window_shrinks();
    /// Promise 59.
    fn window_update_not_at_start();
    /// Promise 59.
    fn window_update_without_scaling();
    /// Promise 59.
    fn zero_window_probe();
    /// Promise 59.
    fn zero_window_probe_taken();
    /// Promise 59.
    fn zero_window_unanswered();
}
