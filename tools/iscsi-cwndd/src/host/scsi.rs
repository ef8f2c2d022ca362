// SPDX-License-Identifier: GPL-2.0-only
//! LOG SENSE by the block layer's SG_IO ioctl (`<scsi/sg.h>`, interface version 3).

use super::AskError;
use nix::errno::Errno;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::ptr;
use std::time::Duration;

const LOG_SENSE: u8 = 0x4d;
/// PC 01b, cumulative values.
const CUMULATIVE: u8 = 0b01 << 6;
/// More than 20 connections; open-iscsi has one.
const ALLOCATION_BYTES: u16 = 4096;
const SENSE_BYTES: u8 = 64;
/// A UNIT ATTENTION says something else first, and the question has to be put again.
const ATTEMPTS: u32 = 4;

const SG_DXFER_FROM_DEV: i32 = -3;
const CHECK_CONDITION: u8 = 0x02;
const KEY_ILLEGAL_REQUEST: u8 = 0x05;
const KEY_UNIT_ATTENTION: u8 = 0x06;

/// `struct sg_io_hdr`
#[repr(C)]
struct SgIoHdr {
    interface_id: i32,
    dxfer_direction: i32,
    cmd_len: u8,
    mx_sb_len: u8,
    iovec_count: u16,
    dxfer_len: u32,
    dxferp: *mut u8,
    cmdp: *const u8,
    sbp: *mut u8,
    timeout_ms: u32,
    flags: u32,
    pack_id: i32,
    usr_ptr: *mut u8,
    status: u8,
    masked_status: u8,
    msg_status: u8,
    sb_len_wr: u8,
    host_status: u16,
    driver_status: u16,
    resid: i32,
    duration_ms: u32,
    info: u32,
}

nix::ioctl_readwrite_bad!(sg_io, 0x2285, SgIoHdr);

/// Opens a disk to ask it: no write access, and no wait for a medium.
pub fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).custom_flags(nix::libc::O_NONBLOCK | nix::libc::O_CLOEXEC).open(path)
}

/// Log page 3Ch as it came.
pub fn log_sense(device: &File, timeout: Duration) -> Result<Vec<u8>, AskError> {
    let [length_high, length_low] = ALLOCATION_BYTES.to_be_bytes();
    let cdb = [LOG_SENSE, 0, CUMULATIVE | cwnd_log_page::PAGE_CODE, 0, 0, 0, 0, length_high, length_low, 0];
    for _ in 0..ATTEMPTS {
        let mut data = vec![0; ALLOCATION_BYTES.into()];
        let mut sense = [0; SENSE_BYTES as usize];
        let mut header = SgIoHdr {
            interface_id: i32::from(b'S'),
            dxfer_direction: SG_DXFER_FROM_DEV,
            cmd_len: 10,
            mx_sb_len: SENSE_BYTES,
            iovec_count: 0,
            dxfer_len: ALLOCATION_BYTES.into(),
            dxferp: data.as_mut_ptr(),
            cmdp: cdb.as_ptr(),
            sbp: sense.as_mut_ptr(),
            timeout_ms: u32::try_from(timeout.as_millis()).unwrap_or(u32::MAX),
            flags: 0,
            pack_id: 0,
            usr_ptr: ptr::null_mut(),
            status: 0,
            masked_status: 0,
            msg_status: 0,
            sb_len_wr: 0,
            host_status: 0,
            driver_status: 0,
            resid: 0,
            duration_ms: 0,
            info: 0,
        };
        // SAFETY: the header is laid out as the kernel's; its three pointers are to buffers of the stated lengths that
        // outlive the call, which returns only when the command is over.
        match unsafe { sg_io(device.as_raw_fd(), &raw mut header) } {
            Ok(_) => {}
            Err(Errno::EINTR) => continue,
            Err(error) => return Err(AskError::Failed(format!("SG_IO: {}", error.desc()))),
        }
        if header.status == CHECK_CONDITION {
            match sense_key(&sense) {
                KEY_ILLEGAL_REQUEST => return Err(AskError::NotOffered),
                KEY_UNIT_ATTENTION => continue,
                key => return Err(AskError::Failed(format!("CHECK CONDITION, sense key {key:x}h"))),
            }
        }
        if header.status != 0 || header.host_status != 0 {
            let (status, host) = (header.status, header.host_status);
            return Err(AskError::Failed(format!("SCSI status {status:02x}h, host status {host:02x}h")));
        }
        let residual = usize::try_from(header.resid).unwrap_or(0);
        data.truncate(data.len().saturating_sub(residual));
        return Ok(data);
    }
    Err(AskError::Failed("UNIT ATTENTION again and again".into()))
}

/// From sense data in fixed (70h, 71h) or descriptor format (72h, 73h).
fn sense_key(sense: &[u8; SENSE_BYTES as usize]) -> u8 {
    match sense[0] & 0x7f {
        0x72 | 0x73 => sense[1] & 0x0f,
        _ => sense[2] & 0x0f,
    }
}
