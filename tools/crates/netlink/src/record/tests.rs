// SPDX-License-Identifier: GPL-2.0-only

use super::*;
use proptest::prelude::*;
use yaml_rust2::{Yaml, YamlLoader};

const SPEC: &str = include_str!("../../../../../Documentation/netlink/specs/iscsit.yaml");

fn spec() -> Yaml {
    YamlLoader::load_from_str(SPEC).unwrap().remove(0)
}

/// The entry of a list that has this name.
fn named<'a>(list: &'a Yaml, name: &str) -> &'a Yaml {
    list.as_vec().unwrap().iter().find(|entry| entry["name"].as_str() == Some(name)).unwrap()
}

fn underscored(name: &Yaml) -> String {
    name["name"].as_str().or(name.as_str()).unwrap().replace('-', "_")
}

#[test]
fn the_tables_are_the_specifications() {
    let spec = spec();
    let attributes = named(&spec["attribute-sets"], "conn")["attributes"].as_vec().unwrap();
    assert_eq!(attributes.len(), CONN.len());
    for (attribute, (name, kind)) in attributes.iter().zip(CONN) {
        assert_eq!(underscored(attribute), name);
        let encoding = (attribute["type"].as_str().unwrap(), attribute["enum"].as_str());
        let wanted = match kind {
            Kind::U8 => ("u8", None),
            Kind::U16 => ("u16", None),
            Kind::U32 => ("u32", None),
            Kind::U64 => ("u64", None),
            Kind::Text => ("string", None),
            Kind::Hex | Kind::Address => ("binary", None),
            Kind::CaState => ("u8", Some("ca-state")),
            Kind::Cause => ("u8", Some("cause")),
            Kind::EventCount => ("nest", None),
        };
        assert_eq!(encoding, wanted, "{name}");
    }
    let names = |list: &Yaml| list.as_vec().unwrap().iter().map(underscored).collect::<Vec<_>>();
    assert_eq!(names(&named(&spec["definitions"], "ca-state")["entries"]), CA_STATES);
    assert_eq!(names(&named(&spec["definitions"], "cause")["entries"]), CAUSES);
    assert_eq!(names(&named(&spec["attribute-sets"], "event-count")["attributes"]), EVENT_COUNT);
    let operations = ["conn_get", "conn_event_ntf", "conn_sample_ntf", "sampling_get", "sampling_set"];
    assert_eq!(names(&spec["operations"]["list"]), operations);
}

fn attribute(name: &str, value: Vec<u8>) -> DefaultNla {
    let number = CONN.iter().position(|(known, _)| *known == name).unwrap() + 1;
    DefaultNla::new(number.try_into().unwrap(), value)
}

#[test]
fn a_record_is_decoded() {
    let mut nest = Vec::new();
    for (number, value) in [(1u16, 3u32), (2, 77), (9, 1)] {
        nest.extend([8u16.to_ne_bytes(), number.to_ne_bytes()].concat());
        nest.extend(value.to_ne_bytes());
    }
    let record = Record::decode(&[
        attribute("recovery", nest),
        attribute("id", 5u32.to_ne_bytes().to_vec()),
        attribute("target_iqn", b"iqn.x\0".to_vec()),
        attribute("isid", vec![0, 2, 0x3d, 0, 0, 1]),
        attribute("local_addr", [&2u16.to_ne_bytes()[..], &[0x0c, 0xbc, 10, 0, 0, 2], &[0; 8]].concat()),
        attribute("peer_addr", [&10u16.to_ne_bytes()[..], &[0, 80, 0, 0, 0, 0], &[0; 15], &[1], &[0; 4]].concat()),
        attribute("cause", vec![2]),
        attribute("ca_state", vec![9]),
        DefaultNla::new(1000, vec![1, 2, 3]),
    ])
    .unwrap();
    assert_eq!(
        serde_json::to_string(&record).unwrap(),
        r#"{"id":5,"target_iqn":"iqn.x","isid":"00023d000001","local_addr":"10.0.0.2:3260","peer_addr":"[::1]:80","#
            .to_owned()
            + r#""ca_state":"9","recovery":{"count":3,"cwnd_pkts":77},"cause":"recovery"}"#
    );
    assert!(Record::decode(&[attribute("id", vec![1])]).is_err());
}

proptest! {
    #[test]
    fn any_attributes_are_survived(
        attributes in prop::collection::vec((any::<u16>(), prop::collection::vec(any::<u8>(), 0..40)), 0..20),
    ) {
        let attributes: Vec<_> = attributes.into_iter().map(|(kind, value)| DefaultNla::new(kind % 50, value)).collect();
        let _ = Record::decode(&attributes);
    }
}
