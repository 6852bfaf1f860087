// Requests a file on many connections, some persistent, and one of a server that does not exist.
// Arguments: address, port, file, own address.
'use strict';
const fs = require('fs');
const http = require('http');

const [host, port, file, own] = process.argv.slice(2);
const expected = fs.readFileSync(file);

function get(agent) {
    return new Promise((resolve, reject) => {
        const request = http.get({ host, port, path: '/file', agent }, (response) => {
            const parts = [];
            const socket = response.socket;
            if (socket.localAddress !== own || !(socket.localPort > 0))
                reject(new Error(`own address ${socket.localAddress} ${socket.localPort}`));
            response.on('data', (part) => parts.push(part));
            response.on('end', () => {
                if (Buffer.compare(Buffer.concat(parts), expected) !== 0)
                    reject(new Error('other bytes'));
                resolve();
            });
        });
        request.setSocketKeepAlive(true, 5000);
        request.setNoDelay(true);
        request.on('error', reject);
    });
}

async function main() {
    const agent = new http.Agent({ keepAlive: true, maxSockets: 2 });
    await Promise.all(Array.from({ length: 8 }, () => get(agent)));
    agent.destroy();
    await new Promise((resolve, reject) => {
        http.get({ host, port: 9 }, () => reject(new Error('nobody answered')))
            .on('error', (error) => (error.code === 'ECONNREFUSED' ? resolve() : reject(error)));
    });
}

main().catch((error) => {
    console.error(error);
    process.exit(1);
});
