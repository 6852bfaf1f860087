//! One script a rule: see tests/scripts, and tests/support/script.rs for the language.

mod support;

macro_rules! scripts {
    ($(fn $name:ident();)*) => {
        $(#[test]
        fn $name() {
            support::script::run(stringify!($name), include_str!(concat!("scripts/", stringify!($name), ".script")));
        })*

        /// A script that is not run proves nothing.
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
    fn abort();
    fn ack_of_a_burst();
    fn ack_of_request_is_not_delayed();
    fn ack_of_the_future();
    fn ack_storm();
    fn ack_waits_for_quick_answers();
    fn backlog();
    fn black_hole();
    fn black_hole_not_of_small_data();
    fn black_hole_v6();
    fn challenges_are_limited();
    fn close_active();
    fn close_at_once();
    fn close_passive();
    fn close_simultaneous();
    fn close_with_data();
    fn close_with_unread_data();
    fn closed_port();
    fn connection_options();
    fn data_after_close();
    fn data_and_piggyback();
    fn delayed_ack();
    fn duplicate_sack();
    fn duplicate_sack_in_part();
    fn duplicate_sack_of_a_block();
    fn duplicate_sack_within_a_block();
    fn ecn_not_agreed();
    fn ecn_open_active();
    fn ecn_open_active_refused();
    fn ecn_receiver();
    fn ecn_sender();
    fn ecn_syn_lost();
    fn ecn_v6();
    fn fast_open();
    fn fast_open_answer_lost();
    fn fast_open_bad_cookie();
    fn fast_open_client();
    fn fast_open_client_in_part();
    fn fast_open_client_lost();
    fn fast_open_client_refused();
    fn fast_open_closed_early();
    fn fast_open_off();
    fn fast_open_path_mtu();
    fn fast_open_pending();
    fn fast_open_reset();
    fn fast_retransmit_newreno();
    fn fast_open_unreachable();
    fn fin_out_of_order();
    fn fin_wait_2_ends();
    fn half_close();
    fn half_close_peer();
    fn half_open_bad_ack();
    fn half_open_reset();
    fn half_open_unreachable();
    fn idle_restart();
    fn initial_window();
    fn invited_by_the_peers_window();
    fn keepalive();
    fn keepalive_answered();
    fn keepalive_not_answered_by_refused_segment();
    fn limited_transmit();
    fn listener_fin();
    fn mss_default();
    fn nagle();
    fn nagle_after_full();
    fn nagle_off();
    fn no_ack_is_dropped();
    fn open_active();
    fn open_active_v6();
    fn open_bad_ack();
    fn open_half_times_out();
    fn open_passive();
    fn open_refused();
    fn open_simultaneous();
    fn open_simultaneous_ack();
    fn open_strange_echo();
    fn open_times_out();
    fn our_window_closes();
    fn our_window_probed();
    fn overlaps();
    fn path_mtu();
    fn path_mtu_spoofed();
    fn path_mtu_v6();
    fn path_probe();
    fn paws();
    fn prr_no_burst();
    fn quick_acks();
    fn rack_more_patient();
    fn rack_reordering_seen();
    fn rack_waits_for_reordering();
    fn reader_stopped();
    fn reject();
    fn reset_exact();
    fn reset_in_window();
    fn reset_with_timestamps();
    fn retransmission_lost();
    fn rst_without_ack_to_listener();
    fn rto_after_lost_syn_ack();
    fn rto_backoff();
    fn rto_resends_all();
    fn sack_most_recent_first();
    fn sack_recovery();
    fn sack_sent();
    fn segment_bytes();
    fn segments_of_mss();
    fn silly_window_sender();
    fn slow_start_by_use();
    fn slow_start_stretched_ack();
    fn slow_start_unused();
    fn small_segments_lost();
    fn small_segments_take_buffers();
    fn spurious_ack_of_hole();
    fn syn_ack_data();
    fn syn_again();
    fn syn_cookie();
    fn syn_cookie_forged();
    fn syn_in_connection();
    fn tail_probe();
    fn tail_probe_finds_the_rest_lost();
    fn tail_probe_in_recovery();
    fn tail_probe_in_vain();
    fn tail_probe_mends_one_loss();
    fn tail_probe_not_without_sack();
    fn tail_probe_of_new_data();
    fn tail_probe_of_one_segment();
    fn time_wait_challenges();
    fn time_wait_ignores_rst();
    fn time_wait_reused();
    fn time_wait_reused_by_number();
    fn timestamp_may_be_missing();
    fn timestamp_missing();
    fn timestamp_not_from_bad_handshake();
    fn timestamp_not_from_refused_segment();
    fn timestamp_of_the_left_edge();
    fn timestamps_and_mss();
    fn unreachable_and_answered();
    fn unreachable_and_silent();
    fn unreachable_in_syn_sent();
    fn unreachable_of_what_is_not_sent();
    fn unreachable_when_open();
    fn urgent();
    fn urgent_sent();
    fn user_timeout();
    fn window_counts_sacked_once();
    fn window_scaling();
    fn window_scaling_refused();
    fn window_shrinks();
    fn window_update_not_at_start();
    fn window_update_without_scaling();
    fn zero_window_probe();
    fn zero_window_probe_taken();
    fn zero_window_unanswered();
}
