// SPDX-License-Identifier: GPL-2.0-only
//! The daemon on a simulated host: what it must never do, whatever target, administrator or power supply do.

mod cost;
mod lab;

use crate::config::{Config, OnExit};
use crate::disk::TunedDisk;
use crate::host::sim::{STOCK, disk, page};
use crate::host::{Begun, Disk, Ends, Host, Knob, Knobs, Reads, StackedDevice, TcpSocket};
use crate::restore::Restored;
use crate::session::Feedback;
use crate::store::{Error, Store};
use crate::throttle::Throttle;
use crate::{restore, status};
use cwnd_control::{Received, StrategyName};
use lab::{Lab, logged};
use proptest::prelude::*;
use std::fs::{self, File};
use std::path::Path;

/// A file in the place of the kernel's, and the directories that it is in.
pub fn put(path: impl AsRef<Path>, text: &str) -> File {
    fs::create_dir_all(path.as_ref().parent().unwrap()).unwrap();
    fs::write(&path, text).unwrap();
    File::options().read(true).write(true).open(path).unwrap()
}

#[test]
fn a_reading_disk_is_tuned_and_put_back_at_the_end() {
    let mut lab = Lab::new();
    lab.run(3, &["sda"]);
    assert_eq!(lab.feedback(), &Feedback::Good);
    assert_ne!(lab.knobs("sda"), STOCK);
    assert!(lab.asked() > 10, "asked {} times in 3 s", lab.asked());
    let open_kb = |lab: &Lab| lab.sim.state().open_read_ahead_kb["sda"];
    assert_eq!(open_kb(&lab), lab.knobs("sda").read_ahead_kb);
    lab.stop();
    assert_eq!(lab.knobs("sda"), STOCK);
    assert_eq!(lab.knobs("sdb"), STOCK);
    assert_eq!(open_kb(&lab), STOCK.read_ahead_kb);
    assert_eq!(lab.store().unwrap().disks(), []);
}

#[test]
fn a_disk_is_tuned_without_debugfs_and_it_is_said_once() {
    let mut lab = Lab::new();
    lab.sim.state().debugfs = false;
    lab.run(3, &["sda"]);
    assert_ne!(lab.knobs("sda").queue_depth, STOCK.queue_depth);
    assert_eq!(logged("sda: a greater depth waits for the next completion: debugfs: entity not found"), 1);
}

#[test]
fn originals_are_saved_before_the_first_change() {
    let mut lab = Lab::new();
    lab.sim.state().on_write = Some(|_, state_dir| {
        let saved = std::fs::read_to_string(state_dir.join("originals.json")).unwrap();
        let stock = r#"{"max_sectors_kb":1280,"read_ahead_kb":128,"queue_depth":32}"#;
        assert!(saved.contains(stock), "{saved}");
    });
    lab.run(2, &["sda", "sdb"]);
    assert!(!lab.sim.state().writes.is_empty());
}

#[test]
fn a_crash_is_made_good_at_the_next_start() {
    let mut lab = Lab::new();
    lab.run(2, &["sda"]);
    lab.crash();
    assert_ne!(lab.knobs("sda"), STOCK);
    lab.start();
    assert_eq!(lab.knobs("sda"), STOCK);
    assert_eq!(logged("WARN: the last run did not end by itself"), 1);
}

#[test]
fn restore_makes_a_crash_good_and_refuses_to_meddle() {
    let mut lab = Lab::new();
    lab.run(2, &["sda"]);
    assert!(matches!(lab.store(), Err(Error::Running(_))));
    lab.crash();
    assert!(restore::restore_all(&*lab.sim, &mut lab.store().unwrap()).unwrap().count > 0);
    assert_eq!(lab.knobs("sda"), STOCK);
}

#[test]
fn what_cannot_be_put_back_is_not_forgotten() {
    let mut lab = Lab::new();
    lab.run(2, &["sda"]);
    lab.sim.state().unwritable = Some(Knob::ReadAheadKb);
    lab.sim.state().answer = None;
    lab.run(2, &["sda"]);
    assert!(matches!(lab.feedback(), Feedback::NotOffered(_)));
    lab.stop();
    let restored = restore::restore_all(&*lab.sim, &mut lab.store().unwrap()).unwrap();
    assert_eq!(restored, Restored { count: 0, failed: vec!["sda".into(), "sdb".into()], ..Restored::default() });
    assert_eq!(lab.knobs("sda"), Knobs { read_ahead_kb: lab.knobs("sda").read_ahead_kb, ..STOCK });
    lab.sim.state().unwritable = None;
    let restored = restore::restore_all(&*lab.sim, &mut lab.store().unwrap()).unwrap();
    assert_eq!((restored.count, restored.failed), (2, Vec::new()));
    assert_eq!((lab.knobs("sda"), lab.knobs("sdb")), (STOCK, STOCK));
    assert_eq!(lab.store().unwrap().disks(), []);
}

/// Two disks, and a connection whose window can be bounded.
fn lab_with_a_socket(configure: impl FnOnce(&mut Config)) -> Lab {
    let lab = Lab::with(configure);
    let local = "10.0.0.2:40000".parse().unwrap();
    let mut state = lab.sim.state();
    state.session.as_mut().unwrap().ends = Some(Ends { local, remote: "10.0.0.1:3260".parse().unwrap() });
    state.socket = Some(TcpSocket { inode: 7, received: Received { window_unit_bytes: 2048, ..Received::default() } });
    drop(state);
    lab
}

#[test]
fn a_bounded_window_is_let_go_at_the_end_and_after_a_crash() {
    let mut lab = lab_with_a_socket(|_| {});
    for (end, stops) in [(Lab::stop as fn(&mut Lab), true), (Lab::crash, false)] {
        lab.run(1, &["sda", "sdb"]);
        let bytes = lab.sim.state().advertised.last().unwrap().unwrap();
        assert_eq!(bytes % 2048, 0);
        let now_us = lab.now_us;
        let shown = status::show(&serde_json::from_str(&status::describe(lab.tuner(), now_us)).unwrap());
        assert!(shown.contains(&format!(" KiB, {} KiB advertised, limited by ", bytes >> 10)), "{shown}");
        end(&mut lab);
        if stops {
            assert_eq!(lab.sim.state().advertised.last(), Some(&None));
        }
        lab.start();
        assert_eq!(lab.sim.state().advertised.last(), Some(&None));
    }
}

#[test]
fn one_disk_s_bounded_window_is_let_go_after_a_crash() {
    let mut lab = lab_with_a_socket(|_| {});
    lab.sim.state().session.as_mut().unwrap().disks.truncate(1);
    lab.run(1, &["sda"]);
    assert!(lab.sim.state().advertised.last().unwrap().is_some());
    lab.crash();
    lab.start();
    assert_eq!(lab.sim.state().advertised.last(), Some(&None));
}

#[test]
fn a_bounded_window_is_let_go_where_nothing_moves_it() {
    let ends: [fn(&mut Lab); 4] = [
        |lab| lab.run(1, &[]),
        |lab| {
            lab.sim.state().answer = Some(vec![0]);
            lab.run(1, &["sda", "sdb"]);
        },
        |lab| {
            lab.sim.state().answer = None;
            lab.run(1, &["sda", "sdb"]);
        },
        Lab::stop,
    ];
    for end in ends {
        let mut lab = lab_with_a_socket(|config| config.on_exit = OnExit::Keep);
        lab.run(1, &["sda", "sdb"]);
        assert!(lab.sim.state().advertised.last().unwrap().is_some());
        end(&mut lab);
        assert_eq!(lab.sim.state().advertised.last(), Some(&None));
    }
}

#[test]
fn a_window_that_could_not_be_let_go_is_tried_again() {
    let mut lab = lab_with_a_socket(|_| {});
    lab.run(1, &["sda", "sdb"]);
    for kept in [true, false] {
        lab.sim.state().kept = kept;
        lab.run(1, &["sda", "sdb"]);
        assert_eq!(lab.sim.state().advertised.last().unwrap().is_none(), !kept);
    }
}

#[test]
fn a_window_that_cannot_be_bounded_is_tried_once_and_one_that_must_not_be_never() {
    for bound in [false, true] {
        let mut lab = lab_with_a_socket(|config| config.bound_advertised_window = bound);
        lab.sim.state().kept = true;
        lab.run(2, &["sda", "sdb"]);
        assert_eq!(logged("session 1: what it advertises cannot be bounded: permission denied"), usize::from(bound));
        assert_eq!(lab.sim.state().advertised, []);
    }
}

/// As its administrator has it.
const ABOVE: Knobs<u32> = Knobs { max_sectors_kb: 1280, read_ahead_kb: 256, queue_depth: 0 };

/// A lab with a device above both disks.
fn lab_with_a_device_above() -> (Lab, StackedDevice) {
    let lab = Lab::new();
    let below = lab.sim.sessions().into_iter().flat_map(|session| session.disks).map(|disk| disk.id.device).collect();
    let disk = Disk { max_depth: 0, max_request_bytes: 0, ..disk(0, "dm-0", 7) };
    let stacked = StackedDevice { disk, makes_requests: false, below };
    lab.sim.state().knobs.insert("dm-0".into(), ABOVE);
    lab.sim.state().reads.insert("dm-0".into(), Reads::default());
    lab.sim.state().stacked_devices = vec![stacked.clone()];
    (lab, stacked)
}

#[test]
fn a_device_above_has_the_read_ahead_of_the_disks_below_that_are_read() {
    let (mut lab, _) = lab_with_a_device_above();
    lab.run(10, &["sda", "sdb"]);
    let most_kb = (lab.config.limits().max_read_ahead_bytes / 1024) as u32;
    let sum_kb = (lab.knobs("sda").read_ahead_kb + lab.knobs("sdb").read_ahead_kb).min(most_kb);
    assert_eq!(lab.knobs("dm-0"), Knobs { read_ahead_kb: sum_kb, ..ABOVE });
    assert_eq!(lab.sim.state().open_read_ahead_kb["dm-0"], sum_kb);
    let now_us = lab.now_us;
    let shown = status::show(&serde_json::from_str(&status::describe(lab.tuner(), now_us)).unwrap());
    assert!(shown.contains(&format!("dm-0: request 1280 KiB, read-ahead {sum_kb} KiB")), "{shown}");
    lab.run(10, &["sda"]);
    assert_eq!(lab.knobs("dm-0").read_ahead_kb, lab.knobs("sda").read_ahead_kb);
    // A table that is loaded anew resets it, and what is open has it again.
    lab.sim.state().knobs.insert("dm-0".into(), ABOVE);
    lab.sim.state().open_read_ahead_kb.clear();
    lab.run(10, &["sda"]);
    let own_kb = lab.knobs("sda").read_ahead_kb;
    assert_eq!((lab.knobs("dm-0").read_ahead_kb, lab.sim.state().open_read_ahead_kb["dm-0"]), (own_kb, own_kb));
}

#[test]
fn a_device_above_gets_its_read_ahead_back_when_the_disks_go_and_after_a_crash() {
    let (mut lab, stacked) = lab_with_a_device_above();
    let reads = |lab: &mut Lab| {
        lab.run(10, &["sda", "sdb"]);
        assert_ne!(lab.knobs("dm-0"), ABOVE);
    };
    reads(&mut lab);
    lab.sim.state().stacked_devices[0].below.clear();
    lab.run(10, &["sda", "sdb"]);
    assert_eq!(lab.knobs("dm-0"), ABOVE);
    lab.sim.state().stacked_devices = vec![stacked.clone()];
    reads(&mut lab);
    // The disks leave it while no daemon runs.
    lab.crash();
    lab.sim.state().stacked_devices[0].below.clear();
    lab.start();
    assert_eq!(lab.knobs("dm-0"), ABOVE);
    lab.sim.state().stacked_devices = vec![stacked];
    reads(&mut lab);
    lab.stop();
    assert_eq!((lab.knobs("dm-0"), lab.store().unwrap().disks()), (ABOVE, vec![]));
}

/// And never while it is in use, as a change may wait for what it would take to end the wait.
#[test]
fn a_device_that_makes_the_requests_is_given_their_size_and_the_disks_are_not() {
    let (mut lab, _) = lab_with_a_device_above();
    lab.sim.state().stacked_devices[0].makes_requests = true;
    let in_flight = |lab: &mut Lab, in_flight| lab.sim.state().reads.get_mut("dm-0").unwrap().in_flight = in_flight;
    in_flight(&mut lab, 1);
    lab.run(10, &["sda", "sdb"]);
    assert_eq!([lab.knobs("dm-0"), lab.knobs("sda")].map(|knobs| knobs.max_sectors_kb), [1280, 1280]);
    in_flight(&mut lab, 0);
    lab.run(30, &[]);
    let wanted_bytes = lab.tuner().sessions[0].output.as_ref().unwrap().request_bytes;
    assert_eq!(lab.knobs("dm-0").max_sectors_kb, wanted_bytes / 1024);
    assert!(wanted_bytes < ABOVE.max_sectors_kb * 1024);
    for disk in &lab.tuner().sessions[0].disks {
        assert_eq!((disk.in_force.max_sectors_kb, disk.state(true).request_bytes), (1280, wanted_bytes));
        assert!(disk.state(true).below);
    }
    // A table that is loaded anew has the disks' size, until it is given this one again; whatever its read-ahead is.
    lab.sim.state().knobs.get_mut("dm-0").unwrap().max_sectors_kb = ABOVE.max_sectors_kb;
    lab.run(30, &[]);
    assert_eq!(lab.knobs("dm-0").max_sectors_kb, wanted_bytes / 1024);
    in_flight(&mut lab, 1);
    lab.stop();
    assert_eq!(lab.knobs("dm-0").max_sectors_kb, wanted_bytes / 1024);
    in_flight(&mut lab, 0);
    let restored = restore::restore_all(&*lab.sim, &mut lab.store().unwrap()).unwrap();
    assert_eq!((restored.failed, lab.knobs("dm-0")), (Vec::new(), ABOVE));
}

#[test]
fn no_disk_is_put_back_below_what_a_device_above_makes() {
    let (mut lab, _) = lab_with_a_device_above();
    let devices = std::mem::take(&mut lab.sim.state().stacked_devices);
    lab.sim.state().knobs.get_mut("sda").unwrap().max_sectors_kb = 4;
    lab.run(2, &["sda"]);
    let tuned_kb = lab.knobs("sda").max_sectors_kb;
    assert!(tuned_kb > 4);
    lab.crash();
    lab.sim.state().stacked_devices = devices;
    lab.sim.state().stacked_devices[0].makes_requests = true;
    lab.sim.state().knobs.get_mut("dm-0").unwrap().max_sectors_kb = tuned_kb;
    let restored = restore::restore_all(&*lab.sim, &mut lab.store().unwrap()).unwrap();
    assert_eq!((restored.failed, lab.knobs("sda").max_sectors_kb), (vec!["sda".into()], tuned_kb));
}

#[test]
fn a_disk_that_comes_under_a_device_has_its_own_size_before_it_is_read() {
    let (mut lab, _) = lab_with_a_device_above();
    let devices = std::mem::take(&mut lab.sim.state().stacked_devices);
    lab.run(2, &["sda"]);
    lab.run(10, &[]);
    assert_ne!(lab.knobs("sda").max_sectors_kb, STOCK.max_sectors_kb);
    lab.sim.state().stacked_devices = devices;
    lab.sim.state().stacked_devices[0].makes_requests = true;
    lab.run(10, &[]);
    assert_eq!(lab.knobs("sda").max_sectors_kb, STOCK.max_sectors_kb);
}

#[test]
fn a_disk_that_is_gone_is_forgotten() {
    let mut lab = Lab::new();
    lab.run(2, &["sda"]);
    lab.crash();
    lab.sim.state().session = None;
    assert_eq!(restore::restore_all(&*lab.sim, &mut lab.store().unwrap()).unwrap(), Restored::default());
    assert_eq!(lab.store().unwrap().disks(), []);
}

#[test]
fn another_boot_makes_saved_settings_void() {
    let mut lab = Lab::new();
    lab.run(2, &["sda"]);
    lab.crash();
    let before = lab.knobs("sda");
    let mut store = Store::open(&lab.config.state_dir, &lab.config.runtime_dir, "another boot").unwrap();
    assert_eq!(restore::restore_all(&*lab.sim, &mut store).unwrap(), Restored::default());
    assert_eq!(lab.knobs("sda"), before);
}

#[test]
fn the_administrators_change_wins() {
    let mut lab = Lab::new();
    lab.run(2, &["sda"]);
    lab.sim.state().knobs.get_mut("sda").unwrap().queue_depth = 77;
    lab.run(30, &["sda"]);
    assert_eq!(lab.knobs("sda").queue_depth, 77);
    assert_eq!(logged("sda: queue_depth is left alone from now on: changed to 77 by someone else"), 1);
    lab.stop();
    assert_eq!(lab.knobs("sda"), Knobs { queue_depth: 77, ..STOCK });
}

#[test]
fn the_administrators_change_wins_while_the_daemon_is_down() {
    let mut lab = Lab::new();
    lab.run(2, &["sda"]);
    lab.crash();
    lab.sim.state().knobs.get_mut("sda").unwrap().read_ahead_kb = 777;
    lab.start();
    assert_eq!(lab.knobs("sda"), Knobs { read_ahead_kb: 777, ..STOCK });
}

#[test]
fn an_unpatched_target_is_noticed_once_and_left_alone() {
    let mut lab = Lab::new();
    lab.sim.state().answer = None;
    lab.run(60, &["sda"]);
    assert_eq!(lab.asked(), 1);
    assert_eq!(lab.sim.state().writes, []);
    assert_eq!(logged("left alone until its next login"), 1);
}

#[test]
fn a_new_login_is_asked_again() {
    let mut lab = Lab::new();
    lab.sim.state().answer = None;
    lab.run(10, &["sda"]);
    lab.sim.state().session.as_mut().unwrap().login = "40001".into();
    lab.sim.state().answer = Some(page().encode());
    lab.run(10, &["sda"]);
    assert_eq!(lab.feedback(), &Feedback::Good);
    assert_ne!(lab.knobs("sda"), STOCK);
    lab.stop();
    assert_eq!(lab.knobs("sda"), STOCK);
}

#[test]
fn an_idle_disk_is_never_asked() {
    let mut lab = Lab::new();
    lab.run(60, &[]);
    assert_eq!(lab.asked(), 1, "the login's question");
    lab.run(5, &["sda"]);
    let asked = lab.asked();
    lab.run(1, &[]);
    let after = lab.asked();
    assert!(after <= asked + 1, "at most the question of the last look at a disk that had just read");
    lab.run(60, &[]);
    assert_eq!(lab.asked(), after);
    assert!(!lab.tuner().sessions[0].active);
}

#[test]
fn an_idle_machine_sleeps_until_the_kernel_tells_of_a_read() {
    let mut lab = Lab::new();
    lab.run(1, &[]);
    assert_eq!(lab.tuner().hosts_to_watch(), Some(vec![2]));
    lab.tuner().watched = true;
    lab.sim.state().looks = 0;
    lab.run(20, &[]);
    assert!(lab.sim.state().looks <= 2 * 5, "{} looks in 20 s", lab.sim.state().looks);
    lab.sim.read("sda");
    lab.tuner().use_began(&[]);
    lab.run_us(100, &[]);
    assert!(lab.tuner().sessions[0].active);
    assert_eq!(lab.tuner().hosts_to_watch(), None);
}

#[test]
fn what_the_first_reads_ask_for_is_heard_until_it_tells() {
    for (blocks, random) in [(8, true), (1024, false)] {
        let mut lab = Lab::new();
        lab.run(1, &[]);
        let read = |lun: u64| Begun { scsi_device: format!("2:0:0:{lun}"), blocks };
        let mut begin = |reads: &[Begun]| {
            lab.sim.state().reads.get_mut("sda").unwrap().in_flight += reads.len() as u32;
            lab.tuner().use_began(reads);
            lab.run_us(1_000, &[]);
            (lab.knobs("sda").queue_depth >= 32, lab.tuner().hosts_to_watch().is_some())
        };
        assert_eq!(begin(&[read(0), read(7)]), (false, true), "one by itself may be anything");
        assert_eq!(begin(&[read(0), read(0), read(0)]), (random, false));
        // Of a session that has begun no more is heard.
        assert_eq!(begin(&[read(1)]), (random, false));
        assert_eq!(lab.tuner().sessions[0].disks[1].state(true).begun_ios, 0);
        lab.sim.read("sda");
        lab.run_us(100_000, &[]);
        assert_eq!(lab.tuner().sessions[0].disks[0].state(true).begun_ios, 0);
    }
}

/// A udev rule may do so after the daemon has found the disk.
#[test]
fn a_disk_that_takes_more_commands_by_now_is_the_same_disk() {
    let mut lab = Lab::new();
    lab.run(2, &["sda"]);
    let request_kb = lab.knobs("sda").max_sectors_kb;
    for disk in &mut lab.sim.state().session.as_mut().unwrap().disks {
        disk.max_depth = 512;
    }
    lab.tuner().rescan_soon(0);
    lab.run(1, &["sda"]);
    assert_eq!(lab.tuner().sessions[0].disks[0].disk.max_depth, 512);
    assert!(lab.tuner().sessions[0].active);
    assert_eq!(lab.knobs("sda").max_sectors_kb, request_kb);
    lab.stop();
    assert_eq!(lab.knobs("sda"), STOCK);
}

#[test]
fn bad_pages_move_nothing_and_are_reported_once() {
    let good = page().encode();
    let mut version = good.clone();
    version[16] = 9;
    let mut nonsense = page();
    nonsense.connections[0].figures.snd_cwnd_pkts = 0;
    // As between two connections of a session.
    let mut none = page();
    none.connections.clear();
    for bad in [good[..100].to_vec(), version, nonsense.encode(), none.encode(), vec![0xff; 300], Vec::new()] {
        let mut lab = Lab::new();
        lab.run(2, &["sda"]);
        let (tuned, reported) = (lab.knobs("sda"), logged("nothing is changed until a good page comes"));
        lab.sim.state().answer = Some(bad);
        // One question that is under way may still be answered well.
        lab.run(1, &["sda"]);
        let (after, writes) = (lab.knobs("sda"), lab.sim.state().writes.len());
        lab.run(30, &["sda"]);
        assert!(matches!(lab.feedback(), Feedback::Trouble(_)));
        assert_eq!((lab.knobs("sda"), lab.sim.state().writes.len()), (after, writes));
        assert_eq!(logged("nothing is changed until a good page comes"), reported + 1);
        assert_ne!(tuned, STOCK);
        lab.sim.state().answer = Some(good.clone());
        lab.run(2, &["sda"]);
        assert_eq!(lab.feedback(), &Feedback::Good);
    }
}

#[test]
fn trouble_while_a_queue_is_frozen_stops_what_was_to_follow() {
    let mut lab = Lab::new();
    // The login's page changes the request size, and the read-ahead once that is done.
    lab.run_us(1000, &[]);
    while lab.tuner().sessions[0].disks[0].freezing.is_none() {
        assert!(lab.sim.state().writes.is_empty());
        lab.run_us(1000, &[]);
    }
    lab.tuner().sessions[0].feedback = Feedback::Trouble("a bad answer to a question asked before".into());
    lab.run(5, &[]);
    let state = lab.sim.state();
    let written = |knob| state.writes.iter().filter(|write| write.1 == knob).count();
    assert_eq!((written(Knob::MaxSectorsKb), written(Knob::ReadAheadKb)), (2, 0), "{:?}", state.writes);
}

#[test]
fn while_the_queue_of_one_disk_is_frozen_another_is_asked_and_keeps_its_request_size() {
    let mut lab = Lab::new();
    lab.run_us(1000, &[]);
    lab.tuner().sessions[0].disks[0].freezing = Some(16);
    lab.sim.state().reads.values_mut().for_each(|reads| reads.in_flight = 4);
    let written = |lab: &Lab| {
        let mut names: Vec<_> = lab.sim.state().writes.iter().map(|write| (write.0.clone(), write.1)).collect();
        names.dedup();
        names
    };
    lab.run(2, &["sda", "sdb"]);
    // The login asked the first disk.
    let asked = lab.sim.state().asked.clone();
    assert!(asked.len() > 10 && asked[0] == "sda" && asked[1..].iter().all(|name| name == "sdb"));
    assert!(written(&lab).iter().all(|&(_, knob)| knob == Knob::QueueDepth), "{:?}", written(&lab));
    lab.tuner().sessions[0].disks[0].freezing = None;
    lab.run(2, &["sda", "sdb"]);
    let sizes: Vec<_> = written(&lab).into_iter().filter(|(_, knob)| *knob == Knob::MaxSectorsKb).collect();
    assert_eq!(sizes[..2], [("sda".into(), Knob::MaxSectorsKb), ("sdb".into(), Knob::MaxSectorsKb)]);
}

#[test]
fn a_request_size_that_was_being_written_at_the_end_is_put_back() {
    let mut lab = Lab::new();
    lab.crash();
    let mut store = lab.store().unwrap();
    let mut log = Throttle::new(0);
    let mut sda = TunedDisk::new(&*lab.sim, &store, disk(1, "sda", 0)).unwrap();
    let wanted = sda.wanted(16 << 10, 0, 7);
    assert!(sda.apply(&*lab.sim, &mut store, &wanted, true, "", &mut log).is_some());
    // The depth does not wait for it.
    assert!(sda.apply(&*lab.sim, &mut store, &wanted, true, "", &mut log).is_none());
    assert_eq!(lab.knobs("sda").queue_depth, 7);
    lab.sim.state().knobs.get_mut("sda").unwrap().max_sectors_kb = 16;
    restore::restore_all(&*lab.sim, &mut store).unwrap();
    assert_eq!(lab.knobs("sda"), STOCK);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]
    #[test]
    fn garbage_moves_nothing(bytes in prop::collection::vec(any::<u8>(), 0..300), keep in 0usize..60) {
        let mut answer = page().encode();
        answer.truncate(keep);
        answer.extend(bytes);
        prop_assume!(cwnd_log_page::Page::parse(&answer).is_err());
        let mut lab = Lab::new();
        lab.sim.state().answer = Some(answer);
        lab.run(5, &["sda", "sdb"]);
        prop_assert_eq!(&lab.sim.state().writes, &[]);
    }
}

#[test]
fn a_page_that_is_turned_off_puts_everything_back() {
    let mut lab = Lab::new();
    lab.run(2, &["sda"]);
    assert_ne!(lab.knobs("sda"), STOCK);
    lab.sim.state().answer = None;
    lab.run(2, &["sda"]);
    assert_eq!(lab.knobs("sda"), STOCK);
    assert!(matches!(lab.feedback(), Feedback::NotOffered(_)));
}

#[test]
fn without_tcp_the_session_is_left_alone() {
    let mut lab = Lab::new();
    let mut iser = page();
    iser.connections[0].tcp = false;
    lab.sim.state().answer = Some(iser.encode());
    lab.run(5, &["sda"]);
    assert_eq!(lab.sim.state().writes, []);
    assert_eq!(lab.asked(), 1);
}

#[test]
fn request_size_goes_first_and_does_not_disturb_read_ahead() {
    let mut lab = Lab::new();
    // Smaller than what the kernel raises it to with every write of max_sectors_kb.
    lab.sim.state().knobs.get_mut("sda").unwrap().read_ahead_kb = 64;
    lab.run(3, &["sda"]);
    assert_eq!(logged("left alone"), 0);
    let state = lab.sim.state();
    let first = |knob| state.writes.iter().position(|write| write.0 == "sda" && write.1 == knob);
    let (request, depth) = (first(Knob::MaxSectorsKb), first(Knob::QueueDepth));
    assert!(request.is_none() || depth.is_none() || request < depth, "{:?}", state.writes);
    drop(state);
    lab.stop();
    assert_eq!(lab.knobs("sda"), Knobs { read_ahead_kb: 64, ..STOCK });
}

#[test]
fn the_administrators_change_stays_known_over_later_changes_and_a_crash() {
    let mut lab = Lab::new();
    lab.run(2, &[]);
    lab.sim.state().knobs.get_mut("sda").unwrap().read_ahead_kb = 4444;
    lab.run(10, &["sda"]);
    assert_eq!(logged("sda: read_ahead_kb is left alone"), 1);
    assert!(lab.sim.state().writes.len() > 3, "other settings still change");
    lab.crash();
    lab.start();
    assert_eq!(lab.knobs("sda"), Knobs { read_ahead_kb: 4444, ..STOCK });
}

#[test]
fn a_value_that_the_kernel_rounds_is_written_once_and_stays_ours() {
    let mut lab = Lab::new();
    lab.sim.state().max_sectors_kb = 8;
    lab.run(10, &["sda"]);
    let request_sizes = |lab: &Lab| {
        let of_sda = |write: &&(String, Knob, u32)| write.0 == "sda" && write.1 == Knob::MaxSectorsKb;
        lab.sim.state().writes.iter().filter(of_sda).map(|write| write.2).collect::<Vec<_>>()
    };
    let written = request_sizes(&lab);
    assert!(written.windows(2).all(|pair| pair[0] != pair[1]), "{written:?}");
    assert_eq!(lab.knobs("sda").max_sectors_kb, 8);
    lab.sim.state().max_sectors_kb = u32::MAX;
    lab.crash();
    lab.start();
    assert_eq!(lab.knobs("sda"), STOCK);
    assert_eq!(logged("left alone"), 0);
}

#[test]
fn read_ahead_is_bounded_by_memory() {
    let mut lab = Lab::new();
    lab.sim.state().available_bytes = 4 << 20;
    lab.run(2, &["sda", "sdb"]);
    assert_eq!(lab.knobs("sda").read_ahead_kb, 256);
    assert_eq!(lab.knobs("sdb").read_ahead_kb, 256);
}

#[test]
fn off_asks_nothing_and_sets_nothing() {
    let mut lab = Lab::with(|config| config.strategy = StrategyName::Off);
    lab.run(5, &["sda"]);
    assert_eq!((lab.asked(), lab.sim.state().writes.len()), (0, 0));
}

#[test]
fn strategies_without_feedback_ask_nothing_and_put_back() {
    for strategy in [StrategyName::Linear, StrategyName::Binary] {
        let mut lab = Lab::with(|config| config.strategy = strategy);
        lab.sim.state().answer = None;
        lab.run(5, &["sda"]);
        assert_eq!(lab.asked(), 0);
        assert_eq!(lab.feedback(), &Feedback::Unneeded);
        assert_ne!(lab.knobs("sda"), STOCK);
        lab.sim.state().session.as_mut().unwrap().login = "40001".into();
        lab.run(10, &["sda"]);
        assert_eq!(lab.asked(), 0);
        lab.stop();
        assert_eq!((lab.knobs("sda"), lab.knobs("sdb")), (STOCK, STOCK));
    }
}

#[test]
fn status_says_in_words_which_limit_binds() {
    type Spoil = fn(&mut cwnd_log_page::Figures);
    let pages: [(Spoil, &str); 3] = [
        (|figures| figures.snd_wnd_bytes = 20_000, "advertised window"),
        (|figures| figures.sndbuf_bytes = 20_000, "send buffer"),
        (|figures| figures.snd_cwnd_pkts = 10, "cwnd"),
    ];
    let shown = |lab: &mut Lab| {
        let now_us = lab.now_us;
        status::show(&serde_json::from_str(&status::describe(lab.tuner(), now_us)).unwrap())
    };
    for (spoil, limit) in pages {
        let mut lab = Lab::new();
        let mut page = page();
        let figures = &mut page.connections[0].figures;
        (figures.snd_wnd_bytes, figures.sndbuf_bytes, figures.snd_cwnd_pkts) = (1 << 30, 1 << 30, 1 << 20);
        spoil(figures);
        lab.sim.state().answer = Some(page.encode());
        lab.run(2, &["sda"]);
        let reading = shown(&mut lab);
        assert!(reading.contains(&format!(" KiB, limited by {limit}\n")), "{reading}");
        lab.run(2, &[]);
        let idle = shown(&mut lab);
        assert!(idle.contains(" KiB, limited by application\n"), "{idle}");
    }
    let mut lab = Lab::with(|config| config.strategy = StrategyName::Binary);
    lab.sim.state().reads.get_mut("sda").unwrap().in_flight = 32;
    lab.run(1, &["sda"]);
    let found = shown(&mut lab);
    assert!(found.contains("strategy binary, 1 sessions"), "{found}");
    assert!(found.contains("phase found, window 256 KiB, limited by link\n"), "what comes is the same: {found}");
}

#[test]
fn writes_have_room_beyond_the_depth_for_reads() {
    let mut lab = Lab::new();
    lab.run(1, &[]);
    let depth = lab.knobs("sda").queue_depth;
    assert!(depth < STOCK.queue_depth);
    let write = |lab: &Lab, in_flight| lab.sim.state().reads.get_mut("sda").unwrap().writes_in_flight = in_flight;
    lab.tuner().watched = true;
    for in_flight in [8, 20, 40] {
        write(&lab, in_flight);
        lab.tuner().use_began(&[]);
        lab.run_us(50_000, &[]);
        assert_eq!(lab.knobs("sda").queue_depth, depth + 2 * in_flight + 4);
        assert_eq!(lab.tuner().hosts_to_watch(), None);
    }
    // Nor is it kept for a few writes that go on.
    write(&lab, 1);
    lab.run_us(400_000, &[]);
    assert!(lab.knobs("sda").queue_depth <= depth + 10);
    write(&lab, 40);
    lab.run_us(50_000, &[]);
    // Reads do not get it.
    let read = |lab: &Lab, in_flight| lab.sim.state().reads.get_mut("sda").unwrap().in_flight = in_flight;
    read(&lab, 100);
    lab.run_us(50_000, &["sda"]);
    let for_reads = |lab: &mut Lab| lab.tuner().sessions[0].output.as_ref().unwrap().depths[0];
    assert_eq!(lab.knobs("sda").queue_depth, for_reads(&mut lab) + 40);
    read(&lab, 0);
    write(&lab, 0);
    lab.run(4, &[]);
    assert_eq!(lab.knobs("sda").queue_depth, for_reads(&mut lab));
    assert_ne!(lab.tuner().hosts_to_watch(), None);
}

#[test]
fn kept_settings_stay_and_remember_their_originals() {
    let mut lab = Lab::with(|config| config.on_exit = OnExit::Keep);
    lab.run(2, &["sda"]);
    lab.stop();
    let kept = lab.knobs("sda");
    assert_ne!(kept, STOCK);
    lab.start();
    assert_eq!(lab.knobs("sda"), kept);
    lab.run(2, &["sda"]);
    assert_eq!(logged("left alone"), 0);
    lab.config.on_exit = OnExit::Restore;
    lab.tuner().config.on_exit = OnExit::Restore;
    lab.stop();
    assert_eq!(lab.knobs("sda"), STOCK);
}

#[test]
fn disks_come_and_go() {
    let mut lab = Lab::new();
    lab.run(2, &["sda"]);
    {
        let mut state = lab.sim.state();
        state.knobs.insert("sdc".into(), STOCK);
        state.reads.insert("sdc".into(), Reads::default());
        state.knobs.remove("sdb");
        let disks = &mut state.session.as_mut().unwrap().disks;
        disks.remove(1);
        disks.push(disk(1, "sdc", 2));
    }
    lab.run(10, &["sda", "sdc"]);
    assert_ne!(lab.knobs("sdc"), STOCK);
    lab.sim.state().session = None;
    lab.run(10, &[]);
    assert!(lab.tuner().sessions.is_empty());
    lab.stop();
    assert_eq!(lab.store().unwrap().disks(), []);
}

#[test]
fn status_and_record_say_what_is_done() {
    let mut lab = Lab::new();
    lab.run(2, &["sda"]);
    let now_us = lab.now_us;
    let json = status::describe(lab.tuner(), now_us);
    let value: serde_json::Value = serde_json::from_str(&json).unwrap();
    let session = &value["sessions"][0];
    assert_eq!(session["feedback"], "good");
    assert_eq!(session["disks"][0]["original"]["queue_depth"], 32);
    assert_eq!(session["path"]["srtt_us"], 20_000);
    let shown = status::show(&serde_json::from_str(&json).unwrap());
    assert!(shown.contains("sda (reading): request"), "{shown}");
    let record = std::fs::read_to_string(lab.dir.path().join("record")).unwrap();
    let lines: Vec<serde_json::Value> = record.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(lines.len() > 10);
    assert!(lines.iter().any(|line| line["page"]["ca_state"] == "open"));
    assert!(lines.iter().all(|line| line["queue_depths"]["sda"].is_u64() && line["window_bytes"].is_u64()));
}
