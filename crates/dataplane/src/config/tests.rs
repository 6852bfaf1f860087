//! Valid and invalid files.

use super::*;

const LEAST: &str = "[device]\nname = \"eth0\"\n[network]\naddresses = [\"10.0.0.9/24\"]\n";

/// Mistakes in a text, one on each line, in order.
fn refused(text: &str) -> String {
    let problems = Config::parse(text).expect_err(text);
    let lines: Vec<String> = problems.iter().map(ToString::to_string).collect();
    lines.join(" | ")
}

#[test]
fn the_least_file_has_the_documented_defaults() {
    let config = Config::parse(LEAST).expect("a configuration");
    assert_eq!(config.socket, Path::new(DEFAULT_SOCKET));
    assert_eq!(config.links[0].kind, LinkKind::Xdp(Mode::Best));
    assert_eq!(
        (config.packets.frames, config.packets.frame_bytes),
        (8192, 2048)
    );
    assert_eq!(config.options.batch, 64);
    assert_eq!(config.options.spin, Duration::from_millis(20));
    assert!(!config.packets.trusts_checksums && config.packets.segmentation);
    assert!(config.applications.is_empty());
}

/// Promise 75.
#[test]
fn an_offline_cpu_is_refused_with_its_line() {
    let online = [CpuId(0), CpuId(1), CpuId(3)];
    let device = LEAST.replace("\"eth0\"", "\"eth0\"\ncpu = 2");
    let core = format!("{LEAST}[[core]]\ncpu = 3\n[[core]]\ncpu = 64\n");
    for (text, cpu) in [(&device, "cpu = 2"), (&core, "cpu = 64")] {
        let problems = Config::parse_for(text, Some(&online)).expect_err(cpu);
        let [problem] = problems.as_slice() else {
            panic!("{problems:?}")
        };
        assert!(
            problem.text.contains(&format!("{cpu}: this host")),
            "{problem:?}"
        );
        let line = text
            .lines()
            .position(|line| line == cpu)
            .expect("it is there");
        assert_eq!(problem.line, line + 1);
        assert!(Config::parse(text).is_ok(), "for no host in particular");
    }
    let here = core.replace("64", "1");
    assert!(Config::parse_for(&here, Some(&online)).is_ok());
}

/// Promise 49.
#[test]
fn further_devices_have_own_networks_and_mistakes_are_named() {
    let link = |rest: &str| format!("{LEAST}[[link]]\ndevice = \"eth1\"\n{rest}");
    let good = "addresses = [\"10.1.0.9/24\", \"fd00::9/64\"]\ngateways = [\"10.1.0.1\"]\n";
    let config = Config::parse(&link(good)).expect("two devices");
    let [first, second] = config.links.as_slice() else {
        panic!("{:?}", config.links)
    };
    assert_eq!((first.name.as_str(), first.queue), ("eth0", None));
    assert_eq!((second.name.as_str(), second.queue), ("eth1", None));
    assert_eq!(second.kind, LinkKind::Xdp(Mode::Best));
    assert_eq!(config.addresses().count(), 3);
    let stack = config.stack(&[([2; 6], 1500), ([4; 6], 9000)], [7; 16]);
    let mtus: Vec<u32> = stack.interfaces.iter().map(|one| one.mtu_bytes).collect();
    assert_eq!(mtus, [1500, 9000]);
    let queue = link(&format!("mode = \"generic\"\nqueue = 0\n{good}"));
    let config = Config::parse(&queue).expect("one queue for all cores");
    assert_eq!(config.links[1].queue, Some(0));
    assert_eq!(config.links[1].kind, LinkKind::Xdp(Mode::Generic));

    for (text, why) in [
        (link(""), "missing field `addresses`"),
        (link("addresses = []\n"), "link.addresses is empty"),
        (
            link("addresses = [\"10.1.0.9\"]\n"),
            "link.addresses: \"10.1.0.9\" is not an address",
        ),
        (
            link("addresses = [\"10.0.0.9/24\"]\n"),
            "10.0.0.9 is an address on eth0 already",
        ),
        (
            link(good).replace("\"eth1\"", "\"eth0\""),
            "\"eth0\" is a device of this dataplane already",
        ),
        (
            link(&format!("mode = \"tap\"\n{good}")),
            "a tap device is a dataplane's only one",
        ),
        (
            link(good).replace("\"eth0\"\n", "\"eth0\"\nmode = \"tap\"\n"),
            "a dataplane with a tap device has no other",
        ),
        (link(&format!("que = 1\n{good}")), "unknown field `que`"),
    ] {
        let problems = refused(&text);
        assert!(problems.contains(why), "{text}\n{problems}");
    }
    let many: String = (1..=8)
        .map(|n| format!("[[link]]\ndevice = \"eth{n}\"\naddresses = [\"10.1.{n}.9/24\"]\n"))
        .collect();
    let problems = refused(&format!("{LEAST}{many}"));
    assert!(problems.contains("at most 8 devices"), "{problems}");
}

/// Promise 75.
#[test]
fn cores_are_one_or_as_many_as_are_named() {
    let one = Core::default();
    assert_eq!(Config::parse(LEAST).expect("one core").cores, [one]);
    let device = LEAST.replace("\"eth0\"", "\"eth0\"\ncpu = 3\nqueue = 2");
    let config = Config::parse(&device).expect("one core");
    let (cpu, queue) = (Some(3), 2);
    assert_eq!(config.cores, [Core { cpu, queue }]);
    let cores = format!("{LEAST}[[core]]\ncpu = 1\n[[core]]\nqueue = 1\n[[core]]\ncpu = 2\n");
    let config = Config::parse(&cores).expect("three cores");
    let cores: Vec<(Option<usize>, u32)> = config.cores.iter().map(|c| (c.cpu, c.queue)).collect();
    assert_eq!(cores, [(Some(1), 0), (None, 1), (Some(2), 0)]);
    let many = "[[core]]\n".repeat(33);
    for (more, reason) in [
        (
            "[[core]]\ncpu = 1\n[[core]]\ncpu = 1\n",
            "cpu 1 is used by two",
        ),
        ("[[core]]\ncores = 1\n", "unknown field"),
        ("[[core]]\ncpu = -1\n", "invalid value"),
        (many.as_str(), "at most 32"),
    ] {
        let error = refused(&format!("{LEAST}{more}"));
        assert!(error.contains(reason), "{more}: {error}");
    }
    let two = "[[core]]\n[[core]]\n";
    for (key, reason) in [
        ("cpu = 0", "device.cpu conflicts with the [[core]] entries"),
        (
            "queue = 1",
            "device.queue conflicts with the [[core]] entries",
        ),
        ("mode = \"tap\"", "one queue"),
        ("frames = 300", "too few for 2 cores"),
    ] {
        let device = LEAST.replace("\"eth0\"", &format!("\"eth0\"\n{key}"));
        let error = refused(&format!("{device}{two}"));
        assert!(error.contains(reason), "{key}: {error}");
    }
}

/// Promise 70.
#[test]
fn an_application_may_be_given_a_part_of_its_own() {
    let application = |name: &str, more: &str| {
        format!("[[application]]\nname = \"{name}\"\nuser = \"0\"\n{more}")
    };
    let others = application("a", "") + &application("b", "");
    let given = |percent: u32| application("c", &format!("share_pct = {percent}\n"));
    let text = |percent| format!("{LEAST}{others}{}", given(percent));
    let shares = Config::parse(&text(60)).expect("valid").options.shares;
    // Half of the remainder is guaranteed to the others.
    assert_eq!(shares.of(1000)[..4], [100, 100, 600, 0]);
    for percent in [0, 101] {
        let error = refused(&text(percent));
        assert!(error.contains("shares are 1 to 100"), "{error}");
    }
    let error = refused(&format!(
        "{}{}",
        text(60),
        application("d", "share_pct = 41\n")
    ));
    assert!(error.contains("no more than 100"), "{error}");
}

/// Promise 54.
#[test]
fn elastic_cores_are_off_by_default_with_documented_settings() {
    let two = "[[core]]\n[[core]]\n[[core]]\n";
    let config = Config::parse(&format!("{LEAST}{two}")).expect("a configuration");
    assert_eq!((config.elastic, config.options.first_cores), (None, None));
    let config = Config::parse(&format!("{LEAST}[elastic]\n{two}")).expect("a configuration");
    assert_eq!(config.options.first_cores, Some(1));
    let expected = Elastic {
        least_cores: 1,
        most_cores: 3,
        interval: Duration::from_millis(100),
        queue_delay: Duration::from_micros(100),
        busy_share: 0.6,
        intervals: 3,
        pause: Duration::from_secs(1),
    };
    assert_eq!(config.elastic, Some(expected));
    let all = "[elastic]\nleast_cores = 2\nmost_cores = 2\ninterval = \"1s\"\n\
        queue_delay = \"0us\"\n\
               busy_share = 0.9\nintervals = 1\npause = \"0s\"\n";
    let config = Config::parse(&format!("{LEAST}{all}{two}")).expect("a configuration");
    let expected = Elastic {
        least_cores: 2,
        most_cores: 2,
        interval: Duration::from_secs(1),
        queue_delay: Duration::ZERO,
        busy_share: 0.9,
        intervals: 1,
        pause: Duration::ZERO,
    };
    assert_eq!(config.elastic, Some(expected));
    assert_eq!(config.options.first_cores, Some(2));
}

/// Promise 54.
#[test]
fn wrong_elastic_cores_are_refused_with_reason_and_line() {
    let two = "[[core]]\n[[core]]\n";
    for (cores, key, reason) in [
        ("", "", "needs two [[core]] entries"),
        ("[[core]]\n", "", "needs two [[core]] entries"),
        (
            two,
            "least_cores = 0",
            "elastic.least_cores = 0 is outside 1..=2",
        ),
        (
            two,
            "most_cores = 3",
            "elastic.most_cores = 3 is outside 1..=2",
        ),
        (
            two,
            "least_cores = 2\nmost_cores = 1",
            "least_cores = 2 is more than most_cores = 1",
        ),
        (two, "interval = \"49ms\"", "outside 50ms to 60s"),
        (two, "interval = \"100\"", "with its unit"),
        (two, "queue_delay = \"2s\"", "outside 0ns to 1s"),
        (two, "queue_delay = 100", "invalid type"),
        (two, "busy_share = 0.96", "outside 0.05..=0.95"),
        (two, "busy_share = 0.0", "outside 0.05..=0.95"),
        (two, "busy_share = nan", "outside 0.05..=0.95"),
        (
            two,
            "intervals = 0",
            "elastic.intervals = 0 is outside 1..=1000",
        ),
        (two, "pause = \"2h\"", "with its unit"),
        (two, "pause = \"3601s\"", "outside 0ns to 3600s"),
        (two, "delay = \"1ms\"", "unknown field"),
    ] {
        let text = format!("{LEAST}[elastic]\n{key}\n{cores}");
        let error = refused(&text);
        assert!(error.contains(reason), "{key}: {error}");
        let line = if key.is_empty() { 5 } else { 6 };
        assert!(error.starts_with(&format!("{line}:")), "{key}: {error}");
    }
}

#[test]
fn several_applications_get_frames_of_their_own() {
    let one = "[[application]]\nname = \"a\"\nuser = \"0\"\n";
    let two = "[[application]]\nname = \"b\"\nuser = \"root\"\nbind = [\"tcp/*:80\"]\n";
    let config = Config::parse(&format!("{LEAST}{one}")).expect("a configuration");
    assert_eq!(config.options.private_frames, None);
    let config = Config::parse(&format!("{LEAST}{one}{two}")).expect("a configuration");
    assert_eq!(config.options.private_frames, Some(4096));
    assert_eq!(config.applications[1].uid, 0);
}

/// An application of `nobody` with further keys.
fn guest(name: &str, more: &str) -> String {
    format!("[[application]]\nname = \"{name}\"\nuser = \"65534\"\n{more}\n")
}

#[test]
fn an_application_behind_keys_has_a_program_and_a_user() {
    let pkey = "domain = \"pkey\"\nprogram = \"echo 10.0.0.9:7\"";
    let text = format!(
        "{LEAST}{}{}",
        guest("web", "domain = \"process\""),
        guest("hot", pkey)
    );
    let config = Config::parse(&text).expect("a configuration");
    let (place, client, program) = config.guest().expect("one");
    assert_eq!((place, client.name.as_str(), client.uid), (1, "hot", 65534));
    assert_eq!(program, "echo 10.0.0.9:7".parse().expect("a program"));
    assert!(Config::parse(LEAST).expect("none").guest().is_none());
}

/// Promise 69.
#[test]
fn wrong_protection_domains_are_refused_with_reason_and_line() {
    let pkey = "domain = \"pkey\"\nprogram = \"echo 10.0.0.9:7\"";
    let two = format!("{}{}", guest("a", pkey), guest("b", pkey));
    let cores = format!("[[core]]\n[[core]]\n{}", guest("a", pkey));
    for (more, reason, line) in [
        (
            guest("a", "domain = \"thread\""),
            "unknown variant `thread`, expected `process` or `pkey`",
            8,
        ),
        (
            guest("a", "domain = \"pkey\""),
            "application 'a': domain = \"pkey\" needs a program",
            8,
        ),
        (
            guest("a", "program = \"echo 10.0.0.9:7\""),
            "only one with domain = \"pkey\" has a program",
            8,
        ),
        (
            guest("a", "domain = \"process\"\nprogram = \"echo 10.0.0.9:7\""),
            "only one with domain = \"pkey\"",
            9,
        ),
        (
            guest("a", "domain = \"pkey\"\nprogram = \"echo\""),
            "application 'a': program = \"echo\": write a server",
            9,
        ),
        (
            guest("a", pkey).replace("65534", "0"),
            "domain = \"pkey\" protects from no program of root",
            7,
        ),
        (
            two,
            "application 'b': a dataplane runs one application with domain = \"pkey\"",
            13,
        ),
        (
            cores,
            "application 'a': domain = \"pkey\" needs a dataplane with one core",
            10,
        ),
    ] {
        let text = format!("{LEAST}{more}");
        let problems = Config::parse(&text).expect_err(&more);
        // Consequential errors may be missing.
        let is_it = |p: &Problem| p.text.contains(reason) && p.line == line;
        assert!(problems.iter().any(is_it), "{more}: {problems:#?}");
    }
}

/// Promise 75.
#[test]
fn wrong_files_are_refused_with_the_reason() {
    for (more, reason) in [
        ("[loop]\nbatch = 0\n", "outside 1..=256"),
        ("[loop]\nbatch = 257\n", "outside 1..=256"),
        ("[loop]\nspin = \"5\"\n", "with its unit"),
        ("[loop]\nspin = \"5s\"\n", "longer than 1s"),
        ("[loop]\nbacth = 5\n", "unknown field"),
        ("[tcp]\nconnections = 0\n", "outside"),
        ("[tcp]\ncongestion = \"bbr\"\n", "unknown variant"),
        (
            "[[application]]\nname = \"a\"\nuser = \"nobody-here\"\n",
            "no user",
        ),
        ("[[application]]\nname = \"\"\nuser = \"0\"\n", "1 to 64"),
        (
            "[[application]]\nname = \"a\"\nuser = \"0\"\nbind = [\"80\"]\n",
            "application 'a'",
        ),
        (
            "[[application]]\nname = \"a\"\nuser = \"0\"\n[[application]]\nname = \"a\"\n\
                user = \"0\"\n",
            "two applications",
        ),
    ] {
        let error = refused(&format!("{LEAST}{more}"));
        assert!(error.contains(reason), "{more}: {error}");
        assert!(!error.contains('\n'), "{more}: {error}");
    }
    let no_prefix = LEAST.replace("/24", "");
    assert!(refused(&no_prefix).contains("prefix"));
    let long = LEAST.replace("/24", "/33");
    assert!(refused(&long).contains("prefix"));
}

/// Promise 54.
#[test]
fn the_example_file_can_be_put_in_force() {
    let text = include_str!("../../../../etc/dataplane.toml");
    let config = Config::parse(text).expect("a configuration");
    assert_eq!(config.cores.len(), 2);
    assert_eq!(config.elastic, Some(Elastic::for_cores(2)));
    assert_eq!(config.applications.len(), 1);
}

#[test]
fn random_text_never_panics() {
    let mut random = fastrand::Rng::with_seed(1);
    let elastic =
        "[elastic]\nleast_cores = 1\ninterval = \"1s\"\nbusy_share = 0.5\n[[core]]\n[[core]]\n";
    for round in 0..4000 {
        let more = if round % 2 == 0 { "" } else { elastic };
        let mut text = format!("{LEAST}{more}").into_bytes();
        for _ in 0..random.usize(1..6) {
            let at = random.usize(..text.len());
            text[at] = random.u8(..);
        }
        let _ = Config::parse(&String::from_utf8_lossy(&text));
    }
}

/// Promise 75.
#[test]
fn a_mistake_is_reported_with_its_line() {
    let application =
        "[[application]]\nname = \"a\"\nuser = \"0\"\nbind = [\n\"tcp/*:1\",\n\"tcp/*:0\"]\n";
    for (more, line) in [
        ("[loop]\n\nbatch = 0\n", 7),
        ("[loop]\nbacth = 5\n", 6),
        ("[loop]\nspin = 5\n", 6),
        ("[[application]]\nuser = \"0\"\n", 5),
        (application, 10),
        ("[loop\n", 5),
    ] {
        let error = refused(&format!("{LEAST}{more}"));
        assert!(error.starts_with(&format!("{line}:")), "{more}: {error}");
    }
}

/// Promise 75.
#[test]
fn every_mistake_is_reported_with_its_line() {
    let more = "[loop]\nbatch = 0\nbacth = 5\nspin = \"5\"\n[tcp]\nconnections = 0\n\
                [[application]]\nname = \"a\"\nuser = \"nobody-here\"\nbind = [\"80\"]\n";
    let problems = Config::parse(&format!("{LEAST}{more}")).expect_err("wrong");
    let lines: Vec<usize> = problems.iter().map(|p| p.line).collect();
    // The missing user is not reported: the file names one, which is wrong.
    assert_eq!(lines, [6, 7, 8, 10, 13, 14], "{problems:#?}");
}
