// Serves a file, an echo, and the address of the peer. Arguments: address, port, file.
'use strict';
const fs = require('fs');
const http = require('http');

const [address, port, file] = process.argv.slice(2);
http.createServer((request, response) => {
    switch (request.url) {
    case '/file':
        fs.createReadStream(file).pipe(response);
        break;
    case '/echo':
        request.pipe(response);
        break;
    case '/peer':
        response.end(`${request.socket.remoteAddress} ${request.socket.remotePort}\n`);
        break;
    default:
        response.end('small\n');
    }
}).listen(Number(port), address);
